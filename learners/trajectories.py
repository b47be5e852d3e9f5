"""Episodes to trajectories: each trained seat's turns, with rewards ready for credit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from arena.records import Episode, Turn
from games.spec import GameSpec
from roles.role import Role


class Trajectory(NamedTuple):
    """One trained seat's part of one episode. ``rewards`` sum to its (scaled) return."""

    game: str
    role: str
    policy: str  # the policy that is trained on it
    seat: int
    match: int  # the request's index
    deal_seed: int
    turns: tuple[Turn, ...]  # [K]
    rewards: tuple[float, ...]  # by turn, in units of the scale that was asked for  # [K]


def to_trajectories(
    episodes: Iterable[Episode],
    roles_of: Callable[[str], Sequence[Role]],
    scales: Mapping[str, float],
) -> list[Trajectory]:
    """Return the trajectories of all trained seats that had a turn, in the order of the episodes.

    ``scales`` gives, by game, what rewards are divided by.
    """
    trajectories = []
    for episode in episodes:
        request = episode.request
        roles, scale = roles_of(request.game), scales[request.game]
        for seat, trained in enumerate(request.trained):
            turns = tuple(turn for turn in episode.turns if turn.seat == seat) if trained else ()
            if turns:
                rewards = tuple(turn.reward / scale for turn in turns)
                role = roles[seat]
                trajectories.append(
                    Trajectory(
                        request.game, role.name, role.policy, seat, request.index, request.deal_seed, turns, rewards
                    )
                )
    return trajectories


def return_scale(spec: GameSpec) -> float:
    """Return half the range of a game's returns: divided by it, every game's returns span 2."""
    return max((spec.max_return - spec.min_return) / 2, 1e-9)
