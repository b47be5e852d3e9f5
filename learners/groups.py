"""Groups: trajectories whose returns may be compared, because only the replies in them differ.

A group holds one role's trajectories from one start: same game, same deal, same policy in the seat, same players
in the other seats. Matchmaking draws whole groups (``matchmaking.group_size``); a rule that compares within
them refuses anything else. A trajectory without turns counts: its start was the same, so its return
is as good a comparison as any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from learners.trajectories import Trajectory

Pair = tuple[int, int]


class GroupKey(NamedTuple):
    """What the members of a group have in common."""

    game: str
    start: int  # the deal's seed
    role: str
    seat: int  # a role that plays several seats has a group for each
    policy: str
    players: tuple[str, ...]  # by seat, all of them

    def __str__(self) -> str:
        return (
            f"{self.game}, start {self.start}, role {self.role} in seat {self.seat}, policy {self.policy}, "
            f"players {'/'.join(self.players)}"
        )


_KEY = attrgetter("game", "deal_seed", "role", "seat", "policy", "players")  # a GroupKey's fields, in its order


def is_root(trajectory: Trajectory) -> bool:
    """Return whether a trajectory's match was opened by no other match."""
    return trajectory.root is None


def rollout_of(trajectory: Trajectory) -> int:
    """Return the index of the match that a trajectory's rollout began with."""
    return trajectory.match if trajectory.root is None else trajectory.root


def root_game_of(trajectory: Trajectory) -> str:
    """Return the game of the match that a trajectory's rollout began with, whose settings hold for all of it."""
    return trajectory.game if trajectory.root_game is None else trajectory.root_game


def invocations(trajectories: Sequence[Trajectory]) -> dict[tuple[GroupKey, int], list[int]]:
    """Return the indices of the trajectories of submatches, by group key and by the rollout that they are part of.

    A submatch has its root's deal, so a key covers one role in all rollouts of one query. Submatches that a sub-role
    opened belong to the rollout, too.
    """
    calls: dict[tuple[tuple[Any, ...], int], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if trajectory.root is not None:
            calls.setdefault((_KEY(trajectory), trajectory.root), []).append(index)
    return {(GroupKey(*key), rollout): indices for (key, rollout), indices in calls.items()}


def groups_of(rule: str, trajectories: Sequence[Trajectory]) -> dict[GroupKey, list[int]]:
    """Return the indices of each group's trajectories.

    Raises UsageError, with rule, key and sizes, for a group of fewer than two or groups of different sizes.
    """
    groups = group_members(trajectories)
    sizes = {key: len(indices) for key, indices in groups.items()}
    largest = max(sizes.values(), default=0)
    for key, size in sizes.items():
        if size < 2 or size != largest:
            raise UsageError(
                f"Credit rule {rule!r} compares trajectories within groups of equal size, two or more, but the group "
                f"({key}) has {size} and others have {largest}. Set matchmaking.group_size to two or more, and pass "
                "whole groups."
            )
    return groups


def group_numbers(rule: str, trajectories: Sequence[Trajectory]) -> NDArray[np.intp]:
    """Return the number of each trajectory's group, from 0 on [N]. Raises UsageError as ``groups_of``."""
    numbers = np.zeros(len(trajectories), np.intp)
    for number, indices in enumerate(groups_of(rule, trajectories).values()):
        numbers[indices] = number
    return numbers


def flat_groups(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (game, role) the number of groups whose returns are all equal, and of all groups.

    Every group-relative advantage of a flat group is 0, so nothing is learned from it.
    """
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for key, indices in group_members(trajectories).items():
        flat, total = counts.get((key.game, key.role), (0, 0))
        is_flat = len({trajectories[index].match_return for index in indices}) == 1
        counts[key.game, key.role] = flat + is_flat, total + 1
    return counts


def varying(trajectories: Sequence[Trajectory], groups: NDArray[np.intp]) -> list[float]:
    """Return 1 for each trajectory of a group whose returns differ, else 0; all 1 where none differ.  # [N]

    ``groups`` are the numbers of their groups [N]. Where nothing varies, entropy and divergences still need a batch.
    """
    size, returns = groups.max(initial=-1) + 1, np.array([t.match_return for t in trajectories], np.float64)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(least, groups, returns)
    np.maximum.at(most, groups, returns)
    differs = most > least
    return differs[groups].astype(np.float64).tolist() if differs.any() else [1.0] * len(trajectories)


def group_members(trajectories: Sequence[Trajectory]) -> dict[GroupKey, list[int]]:
    """Return the indices of each group's trajectories, whatever their number."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, key in enumerate(map(_KEY, trajectories)):
        groups.setdefault(key, []).append(index)
    return {GroupKey(*key): indices for key, indices in groups.items()}


def pairs_within_groups(trajectories: Sequence[Trajectory]) -> list[Pair]:
    """Return the indices of each two trajectories of one group, once."""
    return [pair for indices in group_members(trajectories).values() for pair in combinations(indices, 2)]


def win_shares(preferences: Mapping[Pair, float]) -> dict[int, float]:
    """Return by index the mean probability of being preferred, over all pairs that it is in (SPO, arXiv 2401.04056).

    w_i = (1 / (G - 1)) sum over the others j of its group of P(i > j), with P(j > i) = 1 - P(i > j).
    ``preferences`` are those of the first of each pair over the second.
    """
    won: dict[int, list[float]] = {}
    for (first, second), preference in preferences.items():
        won.setdefault(first, []).append(preference)
        won.setdefault(second, []).append(1.0 - preference)
    return {index: fmean(shares) for index, shares in won.items()}
