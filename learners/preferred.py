"""The share of the other matches of its start that a judge prefers a match to: a reward beside the game's, and SPO's.

    w_i = (1 / (G - 1)) sum over the others j of its group of P(i > j),   P(j > i) = 1 - P(i > j)

(Swamy et al. 2024, arXiv 2401.04056). The judge need not be transitive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

from learners.groups import by_group
from learners.trajectories import Trajectory

Pair = tuple[int, int]


def pairs_within_groups(trajectories: Sequence[Trajectory]) -> list[Pair]:
    """Return the indices of each two trajectories of one group, once."""
    return [pair for indices in by_group(trajectories).values() for pair in combinations(indices, 2)]


def win_shares(preferences: Mapping[Pair, float]) -> dict[int, float]:
    """Return by index the mean probability of being preferred, over all pairs that it is in.

    ``preferences`` are those of the first of each pair over the second.
    """
    won: dict[int, list[float]] = {}
    for (first, second), preference in preferences.items():
        won.setdefault(first, []).append(preference)
        won.setdefault(second, []).append(1.0 - preference)
    return {index: fmean(shares) for index, shares in won.items()}
