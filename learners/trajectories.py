"""Episodes to trajectories: each trained seat's turns, with rewards ready for credit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from arena.records import Episode, Turn, family
from games.spec import GameSpec
from roles.role import Role


class Trajectory(NamedTuple):
    """One trained seat's part of one episode.

    A seat whose match ended before its first turn has no turns; it still has its return, and a place
    in its group. Returns and rewards are in units of the scale that was asked for.
    """

    game: str
    role: str
    policy: str  # the policy that is trained on it
    seat: int
    match: int  # the request's index
    deal_seed: int
    players: tuple[str, ...]  # who sat in every seat  # [seats]
    turns: tuple[Turn, ...]  # [K]
    rewards: tuple[float, ...]  # by turn; they sum to the match's return where there is a turn  # [K]
    match_return: float
    parent: int | None = None  # the index of the match that opened this one for a sub-role
    values: tuple[float, ...] | None = None  # the critic's estimate of the return from each turn on  # [K]
    expected: tuple[float, ...] | None = None  # what the chances of a turn's replies would have paid on average  # [K]
    best_fixed: float | None = None  # what the best single action would have paid, played at every turn
    weight: float = 1.0  # it counts in the loss as so many alike
    root: int | None = None  # the index of the match that began it all; None: this one
    rollout_tokens: float | None = None  # of all trained seats of the whole rollout; None: not counted
    branch: tuple[int, ...] = ()  # the request's: matches whose branches begin alike begin alike


def to_trajectories(
    episodes: Iterable[Episode],
    roles_of: Callable[[str], Sequence[Role]],
    scales: Mapping[str, float],
) -> list[Trajectory]:
    """Return the trajectories of all trained seats, in the order of the episodes' ``family``.

    ``scales`` gives, by game, what rewards are divided by.
    """
    trajectories = []
    roots: dict[int, int] = {}  # of matches that others opened, by index
    for episode in family(episodes):
        request = episode.request
        if request.parent is not None:
            roots[request.index] = roots.get(request.parent, request.parent)
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
                    root=roots.get(request.index),
                    branch=request.branch,
                )
            )
    return trajectories


def return_scale(spec: GameSpec) -> float:
    """Return half the range of a game's returns: divided by it, every game's returns span 2."""
    return max((spec.max_return - spec.min_return) / 2, 1e-9)
