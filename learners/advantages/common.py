"""Sums, means and standard deviations that several rules use, over all turns of a batch at once.

Numbers by turn are flat arrays [T] in the order of the batch: T is the number of turns in it, N the number of
trajectories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learners.groups import group_numbers
from learners.trajectories import Trajectory

EPSILON = 1e-6  # added to a standard deviation in a denominator

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]


def rewards_to_go(trajectories: Sequence[Trajectory], gamma: float) -> Floats:
    """Return the discounted sum of rewards from each turn to the end [T]."""
    return discounted_sums(list(chain.from_iterable(t.rewards for t in trajectories)), trajectories, gamma)


def discounted_sums(numbers_T: ArrayLike, trajectories: Sequence[Trajectory], gamma: float) -> Floats:
    """Return the discounted sum of numbers by turn from each turn to the end of its trajectory [T]."""
    lengths = turn_counts(trajectories)
    present = np.arange(lengths.max(initial=0)) < lengths[:, None]  # [N, K]
    sums = np.zeros(present.shape)
    sums[present] = numbers_T
    for k in reversed(range(present.shape[1] - 1)):
        sums[:, k] += gamma * sums[:, k + 1]
    return sums[present]


def turn_counts(trajectories: Sequence[Trajectory]) -> Labels:
    """Return the number of turns of each trajectory [N]."""
    return np.array([len(t.turns) for t in trajectories], np.intp)


def turn_labels(rule: str, trajectories: Sequence[Trajectory]) -> Labels:
    """Return a label for each turn, equal for the turns of one group with the same index [T].

    Raises UsageError as ``groups_of``.
    """
    groups, lengths = group_numbers(rule, trajectories), turn_counts(trajectories)
    first = np.cumsum(lengths) - lengths  # each trajectory's first turn in the batch
    index = np.arange(lengths.sum()) - np.repeat(first, lengths)  # k  [T]
    return np.asarray(np.repeat(groups * lengths.max(initial=0), lengths) + index)


def moves_of(trajectory: Trajectory) -> list[int]:
    """Return for each turn the number of the seat's moves before it [K].

    A move is a turn of the game. Refused replies and tool calls are turns of a seat before its move: they have the
    move's number.
    """
    numbers, made = [], 0
    for turn in trajectory.turns:
        numbers.append(made)
        made += turn.action is not None and not turn.tool
    return numbers


def split_by_turn(numbers_T: Floats, trajectories: Sequence[Trajectory]) -> list[list[float]]:
    """Return numbers by turn as one list for each trajectory."""
    flat = numbers_T.tolist()
    ends = accumulate((len(t.turns) for t in trajectories), initial=0)
    return [flat[start:end] for start, end in pairwise(ends)]


def label_ids(keys: Iterable[Hashable]) -> Labels:
    """Return an id for each key, from 0 on in the order of first occurrence; equal keys have equal ids."""
    ids: defaultdict[Hashable, int] = defaultdict()
    ids.default_factory = ids.__len__  # a new key's id is the number of keys before it
    return np.fromiter(map(ids.__getitem__, keys), np.intp)


def centred(values: ArrayLike, labels: Labels, weights: ArrayLike | None = None) -> Floats:
    """Return each value less the mean of the values with its label; exact zeros where they are all equal.

    The mean is weighted if ``weights``, all above 0, are given.
    """
    numbers = np.asarray(values, np.float64)
    least = np.full(labels.max(initial=-1) + 1, np.inf)
    np.minimum.at(least, labels, numbers)
    above = numbers - least[labels]  # exactly 0 for equal values
    return above - _means(above, labels, weights)[labels]


def standardised(values: ArrayLike, labels: Labels, weights: ArrayLike | None = None) -> Floats:
    """Return (value - mean) / (std + epsilon) among the values with the same label, weighted as ``centred``.

    The standard deviation is the population's (ddof = 0); where there is no spread, exact zeros.
    """
    differences = centred(values, labels, weights)
    spreads = np.sqrt(_means(differences**2, labels, weights)) + EPSILON
    return np.asarray(differences / spreads[labels])


def _means(values: Floats, labels: Labels, weights: ArrayLike | None) -> Floats:
    """Return the mean by label; 0 for a label without values."""
    shares = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    totals = np.bincount(labels, shares)
    return np.asarray(np.bincount(labels, shares * values) / np.where(totals, totals, 1.0))
