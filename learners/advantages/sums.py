"""Sums, means and spreads that several rules share, over all turns of a batch at once.

Numbers of turns are flat arrays [T] in the order of the batch: T is the number of turns in it, N that of trajectories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learners.trajectories import Trajectory

EPSILON = 1e-6  # beside a standard deviation in a denominator

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]


def rewards_to_go(trajectories: Sequence[Trajectory], gamma: float) -> Floats:
    """Return the discounted sum of the rewards from each turn on [T]."""
    lengths = turn_counts(trajectories)
    present = np.arange(lengths.max(initial=0)) < lengths[:, None]  # [N, K]
    sums = np.zeros(present.shape)
    sums[present] = list(chain.from_iterable(one.rewards for one in trajectories))
    for k in reversed(range(present.shape[1] - 1)):
        sums[:, k] += gamma * sums[:, k + 1]
    return sums[present]


def turn_counts(trajectories: Sequence[Trajectory]) -> Labels:
    """Return how many turns each trajectory has [N]."""
    return np.array([len(one.turns) for one in trajectories], np.intp)


def by_turn(numbers_T: Floats, trajectories: Sequence[Trajectory]) -> list[list[float]]:
    """Return numbers of all turns as one list for each trajectory."""
    flat = numbers_T.tolist()
    ends = accumulate((len(one.turns) for one in trajectories), initial=0)
    return [flat[start:end] for start, end in pairwise(ends)]


def numbered(keys: Iterable[Hashable]) -> Labels:
    """Return a number for each key, from 0 on in the order of first sight; equal keys have equal numbers."""
    numbers: defaultdict[Hashable, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new key's number is how many there were
    return np.fromiter(map(numbers.__getitem__, keys), np.intp)


def centred(values: ArrayLike, labels: Labels, weights: ArrayLike | None = None) -> Floats:
    """Return each value less the mean of those with its label; where they are all equal, exact zeros.

    The mean is weighted if ``weights``, all above 0, are given.
    """
    given = np.asarray(values, np.float64)
    least = np.full(labels.max(initial=-1) + 1, np.inf)
    np.minimum.at(least, labels, given)
    above = given - least[labels]  # exactly 0 for equal values
    return above - _means(above, labels, weights)[labels]


def standardised(values: ArrayLike, labels: Labels, weights: ArrayLike | None = None) -> Floats:
    """Return (value - mean) / (std + epsilon) among the values with the same label, weighted as ``centred``.

    The standard deviation is the population's (ddof = 0); where there is no spread, exact zeros.
    """
    differences = centred(values, labels, weights)
    spreads = np.sqrt(_means(differences**2, labels, weights)) + EPSILON
    return np.asarray(differences / spreads[labels])


def _means(values: Floats, labels: Labels, weights: ArrayLike | None) -> Floats:
    """Return the mean by label; 0 for a label that none has."""
    shares = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    totals = np.bincount(labels, shares)
    return np.asarray(np.bincount(labels, shares * values) / np.where(totals, totals, 1.0))
