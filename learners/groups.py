"""Groups: trajectories whose returns may be compared, because only the replies in them differ.

A group is what one role made of one start: same game, same deal, same policy in the seat, same players
in the others. Matchmaking draws whole groups (``matchmaking.group_size``); a rule that compares within
them refuses anything else. A trajectory without turns counts: its start was the same, so its return
is as good a comparison as any.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.errors import UsageError
from learners.trajectories import Trajectory

NEEDS_GROUPS = frozenset(
    {"grpo", "dr_grpo", "rloo", "m_grpo", "matpo", "cory", "gigpo", "at_grpo", "flow_grpo", "advantage_alignment"}
)


class GroupKey(NamedTuple):
    """What the members of a group have in common."""

    game: str
    start: int  # the deal's seed
    role: str
    seat: int  # where a role sits in several: each is a start of its own
    policy: str
    players: tuple[str, ...]  # by seat, the role's own included

    def __str__(self) -> str:
        return (
            f"{self.game}, start {self.start}, role {self.role} in seat {self.seat}, policy {self.policy}, "
            f"players {'/'.join(self.players)}"
        )


_KEY = attrgetter("game", "deal_seed", "role", "seat", "policy", "players")  # a GroupKey's fields, in its order


def is_root(one: Trajectory) -> bool:
    """Return whether no match opened a trajectory's."""
    return one.root is None


def rollout_of(one: Trajectory) -> int:
    """Return the index of the match that a trajectory's rollout began with: its own, if no match opened it."""
    return one.match if one.root is None else one.root


def invocations(trajectories: Sequence[Trajectory]) -> dict[tuple[GroupKey, int], list[int]]:
    """Return the places of the matches that others opened, by group key and by the rollout that they are part of.

    Such a match has its root's deal, so a key holds what one role made of all the rollouts of one query. Those
    that a sub-role opened count for the rollout, too.
    """
    calls: dict[tuple[tuple[Any, ...], int], list[int]] = {}
    for place, one in enumerate(trajectories):
        if one.root is not None:
            calls.setdefault((_KEY(one), one.root), []).append(place)
    return {(GroupKey(*key), rollout): places for (key, rollout), places in calls.items()}


def groups_of(rule: str, trajectories: Sequence[Trajectory]) -> dict[GroupKey, list[int]]:
    """Return the places of each group's members.

    Raises UsageError, with rule, key and sizes, for a group of fewer than two or groups of different sizes.
    """
    groups = _grouped(trajectories)
    sizes = {key: len(places) for key, places in groups.items()}
    usual = max(sizes.values(), default=0)
    for key, size in sizes.items():
        if size < 2 or size != usual:
            raise UsageError(
                f"Credit rule {rule!r} compares trajectories within groups of equal size, two or more, but the group "
                f"({key}) has {size} and others have {usual}. Set matchmaking.group_size to the size that is meant, "
                "and hand over whole groups."
            )
    return groups


def group_numbers(rule: str, trajectories: Sequence[Trajectory]) -> NDArray[np.intp]:
    """Return the number of each trajectory's group, from 0 on [N]. Raises UsageError as ``groups_of``."""
    numbers = np.zeros(len(trajectories), np.intp)
    for number, places in enumerate(groups_of(rule, trajectories).values()):
        numbers[places] = number
    return numbers


def flat_groups(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (game, role) how many groups teach nothing, their returns being equal, and how many there are."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for key, places in _grouped(trajectories).items():
        flat, total = counts.get((key.game, key.role), (0, 0))
        equal = len({trajectories[place].match_return for place in places}) == 1
        counts[key.game, key.role] = flat + equal, total + 1
    return counts


def _grouped(trajectories: Sequence[Trajectory]) -> dict[GroupKey, list[int]]:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(map(_KEY, trajectories)):
        groups.setdefault(key, []).append(place)
    return {GroupKey(*key): places for key, places in groups.items()}
