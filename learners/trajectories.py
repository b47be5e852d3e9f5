"""Episodes to trajectories: each trained seat's turns and scaled rewards, and the evidence that credit rules use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from arena.records import Episode, Turn, flatten_episodes
from arena.replays import with_tuples
from games.spec import GameSpec

if TYPE_CHECKING:
    from roles.role import Role


class Trajectory(NamedTuple):
    """One trained seat's part of one episode.

    A seat whose match ended before its first turn has no turns, but it has a return and counts in its group. Returns
    and rewards are divided by the game's scale (``to_trajectories``).
    """

    game: str
    role: str
    policy: str  # the policy that is trained on it
    seat: int
    match: int  # the request's index
    deal_seed: int
    players: tuple[str, ...]  # by seat  # [seats]
    turns: tuple[Turn, ...]  # [K]
    rewards: tuple[float, ...]  # by turn; they sum to the match's return where there is a turn  # [K]
    match_return: float
    parent: int | None = None  # the index of the match that opened this one for a sub-role
    root: int | None = None  # the index of the match that its rollout began with; None: this one
    branch: tuple[int, ...] = ()  # the request's: matches share their turns as far as their branches are equal
    root_game: str | None = None  # the game of the match that its rollout began with; None: this one


class Counterfactuals(NamedTuple):
    """What a seat's other actions would have paid, given the moves that the other seats made."""

    expected: tuple[float, ...]  # the mean payoff of a turn's actions under the policy  # [K]
    best_fixed: float  # the payoff of the best single action, played at every turn


class Evidence(NamedTuple):
    """What is computed of a trajectory after play, for credit and normalisation; None: not computed."""

    values: tuple[float, ...] | None = None  # the critic's estimate of the return from each turn on  # [K]
    counterfactuals: Counterfactuals | None = None
    rollout_tokens: float | None = None  # weighted, of all trained seats of the whole rollout


def to_trajectories(
    episodes: Iterable[Episode],
    roles_of: Callable[[str], Sequence[Role]],
    scales: Mapping[str, float],
) -> list[Trajectory]:
    """Return the trajectories of all trained seats, in the order of the episodes' ``flatten_episodes``.

    ``scales`` gives, by game, what rewards are divided by.
    """
    trajectories = []
    roots: dict[int, int] = {}  # of submatches, by index
    games: dict[int, str] = {}  # of all matches, by index
    for episode in flatten_episodes(episodes):
        request = episode.request
        games[request.index], root = request.game, None
        if request.parent is not None:
            root = roots[request.index] = roots.get(request.parent, request.parent)
        roles, scale = roles_of(request.game), scales[request.game]
        for seat in (seat for seat, trained in enumerate(request.trained) if trained):
            turns = tuple([turn for turn in episode.turns if turn.seat == seat])
            trajectories.append(
                Trajectory(
                    request.game,
                    roles[seat].name,
                    request.players[seat],  # a policy in training plays under its own name
                    seat,
                    request.index,
                    request.deal_seed,
                    request.players,
                    turns,
                    tuple([turn.reward / scale for turn in turns]),
                    episode.returns[seat] / scale,
                    request.parent,
                    root=root,
                    branch=request.branch,
                    root_game=None if root is None else games[root],
                )
            )
    return trajectories


def return_scale(spec: GameSpec) -> float:
    """Return half the range of a game's returns: divided by it, every game's returns span 2."""
    return max((spec.max_return - spec.min_return) / 2, 1e-9)


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON has it."""
    counterfactuals = evidence.counterfactuals
    return {**evidence._asdict(), "counterfactuals": counterfactuals and counterfactuals._asdict()}


def evidence_from_json(record: dict[str, Any]) -> Evidence:
    """Return what ``evidence_to_json`` wrote."""
    fields = record["counterfactuals"]
    return Evidence(**{**with_tuples(record), "counterfactuals": fields and Counterfactuals(**with_tuples(fields))})
