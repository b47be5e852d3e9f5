"""Sums and spreads that several rules share."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

EPSILON = 1e-6  # beside a standard deviation in a denominator


def rewards_to_go(rewards_K: Sequence[float], gamma: float) -> list[float]:
    """Return the discounted sum of the rewards from each turn on."""
    sums, total = [], 0.0
    for reward in reversed(rewards_K):
        total = reward + gamma * total
        sums.append(total)
    return sums[::-1]


def centred(values: Sequence[float]) -> list[float]:
    """Return the values less their mean; equal values give exact zeros."""
    if not _differ(values):
        return [0.0] * len(values)
    mean = fsum(values) / len(values)
    return [value - mean for value in values]


def standardised(values: Sequence[float]) -> list[float]:
    """Return (value - mean) / (std + epsilon) with the population's standard deviation; no spread gives zeros."""
    if not _differ(values):
        return [0.0] * len(values)
    mean = fsum(values) / len(values)
    differences = [value - mean for value in values]
    spread = sqrt(fsum([difference * difference for difference in differences]) / len(values)) + EPSILON
    return [difference / spread for difference in differences]


def _differ(values: Sequence[float]) -> bool:
    return values.count(values[0]) != len(values)
