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
    mean = fsum(values) / len(values)
    return [value - mean for value in values] if _differ(values) else [0.0] * len(values)


def standardised(values: Sequence[float]) -> list[float]:
    """Return (value - mean) / (std + epsilon) with the population's standard deviation; no spread gives zeros."""
    if not _differ(values):
        return [0.0] * len(values)
    mean = fsum(values) / len(values)
    spread = sqrt(fsum([(value - mean) ** 2 for value in values]) / len(values)) + EPSILON
    return [(value - mean) / spread for value in values]


def _differ(values: Sequence[float]) -> bool:
    first = values[0]
    return any(value != first for value in values)
