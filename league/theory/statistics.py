"""Estimates with intervals (Wilson's for shares, Student's for means over clusters), and scores over many games.

Percentiles of its scores show how well a player does over many games (XLand, arXiv 2107.12808). Games differ in the
scores that can be reached, so a score counts as a share of the best score in the population. A mean over games would
hide games that were never learned; the lower percentiles show them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Z_95 = 1.959963984540054  # the normal distribution's 97.5 % quantile


class Estimate(NamedTuple):
    """A mean with its 95 % interval; the bounds are None where they cannot be computed."""

    mean: float
    low: float | None
    high: float | None


def wilson(share: float, n: float) -> Estimate:
    """Return Wilson's 95 % score interval for a share of ``n`` > 0 trials (Wilson 1927)."""
    z2 = Z_95 * Z_95 / n
    centre = (share + z2 / 2.0) / (1.0 + z2)
    half = Z_95 / (1.0 + z2) * math.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n))
    return Estimate(share, max(centre - half, 0.0), min(centre + half, 1.0))


def clustered_mean(
    values: Sequence[float], clusters: Sequence[Hashable], bounds: tuple[float, float], error: float = 0.05
) -> Estimate:
    """Return the mean of ``values`` [N] with an interval clustered by ``clusters`` [N], within ``bounds``.

    The interval misses with probability ``error`` (5 % by default). Where all clusters agree, their spread of 0
    underestimates the error, so the interval allows for clusters that were not seen: after G equal clusters, different
    ones have a share of at most p = 1 − (error/2)^(1/G), and might lie anywhere within the bounds. One cluster gives no
    interval.
    """
    mean = math.fsum(values) / len(values)
    by_cluster: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        by_cluster[cluster].append(value - mean)
    count = len(by_cluster)
    if count == 1:
        return Estimate(mean, None, None)
    variance = (
        count
        / (count - 1)
        * math.fsum(math.fsum(deviations) ** 2 for deviations in by_cluster.values())
        / len(values) ** 2
    )
    low, high = min(bounds[0], min(values)), max(bounds[1], max(values))  # a forfeit's penalty may lie outside
    if math.sqrt(variance) <= 1e-9 * (high - low):
        missed = 1.0 - (error / 2.0) ** (1.0 / count)
        return Estimate(mean, mean - missed * (mean - low), mean + missed * (high - mean))
    half = student_quantile(count - 1, error) * math.sqrt(variance)
    return Estimate(mean, max(low, mean - half), min(high, mean + half))


def student_p(t: float, degrees: float) -> float:
    """Return the two-sided p-value of a statistic t with Student's distribution."""
    from scipy.special import stdtr  # slow to import

    return float(2.0 * stdtr(degrees, -abs(t)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values [N] of a family of tests, adjusted by Holm's step-down method (Holm 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = least
    return adjusted


def student_quantile(degrees: float, error: float = 0.05) -> float:
    """Return the quantile of Student's t distribution that is exceeded with probability ``error`` / 2."""
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(degrees, 1.0 - error / 2.0))


PERCENTILES = (10, 20, 30, 40, 50)


def normalised(score: float, best: float) -> float:
    """Return a score as a share of the best one; 1 if nobody has scored, as then nobody is better."""
    return score / best if best > 0.0 else 1.0


def percentiles(normalised_by_game: Mapping[str, float]) -> dict[int, float]:
    """Return each of ``PERCENTILES`` of normalised scores over games, between two games linearly."""
    values = np.percentile(list(normalised_by_game.values()), PERCENTILES)
    return dict(zip(PERCENTILES, values.tolist(), strict=True))


def effective_size(mixture: NDArray[np.float64]) -> float:
    """Return exp(entropy) of a meta-strategy [N]: the number of equally weighted players with the same entropy.

    It is Hill's number of order 1 (Hill 1973, "Diversity and evenness"): between 1 and N.
    Raises ValueError for weights that are negative or do not sum to one.
    """
    if not (mixture.min() >= 0.0 and abs(mixture.sum() - 1.0) < 1e-6):
        raise ValueError(f"expected weights that sum to one, got {mixture.tolist()}")
    used = mixture[mixture > 0.0]
    return math.exp(-float(used @ np.log(used)))
