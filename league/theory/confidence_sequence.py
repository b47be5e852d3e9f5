"""Intervals that hold however often one looks: a confidence sequence for the mean of bounded observations, by betting.

Waudby-Smith and Ramdas (2010.09686), section 4, "hedged grid Kelly". Observations x_1, x_2, … in [0, 1] each have the
mean μ, given those before. A gambler who bets the same share g of its wealth every time that x is above m, at odds
that are fair if μ = m, has after t bets

    K+(m) = mean over g of  Π_i (1 + g (x_i / m − 1)),        a martingale with mean 1 at m = μ,
    K−(m) = mean over g of  Π_i (1 + g ((1 − x_i) / (1 − m) − 1))   for one who bets that x is below m.

By Ville's inequality K±(μ) ever reaches 2/α with probability α/2 at most. K+ falls in m and K− rises, so the values of
m that neither refutes form an interval. It holds at all t at once, and so at any stopping time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from league.theory.statistics import Estimate

Floats = NDArray[np.float64]

SHARES = np.geomspace(0.004, 0.9, 12)  # of the wealth that is bet, g  # [12]
_HALVINGS = 40  # of the interval in which a bound is searched

_FIRST, _GROWTH = 16, 1.2  # deals before the first look, and the factor by which they grow before each further one


def wealth(observations: Floats, mean: float) -> Floats:
    """Return K+(mean) after each of the observations [..., T] in [0, 1], for 0 < ``mean`` <= 1; it may be inf.

    K−(m) is K+(1 − m) of the observations 1 − x.  # [..., T]
    """
    with np.errstate(over="ignore"):
        total = sum(np.cumprod(1.0 + share * (observations / mean - 1.0), axis=-1) for share in SHARES.tolist())
    return np.asarray(total / len(SHARES))


def confidence_interval(observations: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean after all observations [T] in [0, 1]; (0, 1) for none."""
    values, counts = np.unique(np.asarray(observations, dtype=float), return_counts=True)
    limit = math.log(2.0 / (1.0 - confidence))
    return _lower(values, counts, limit), 1.0 - _lower(1.0 - values, counts, limit)


def _lower(values: Floats, counts: NDArray[np.int64], limit: float) -> float:
    """Return the least mean that K+ has not brought to exp(limit), by bisection; a little less, never more."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        logs = np.log1p(np.outer(SHARES, values / middle - 1.0)) @ counts  # [12]
        if logs.max() + math.log(np.exp(logs - logs.max()).mean()) >= limit:
            low = middle
        else:
            high = middle
    return low


def anytime_mean(
    values: Sequence[float], clusters: Sequence[Hashable], bounds: tuple[float, float], confidence: float = 0.95
) -> Estimate:
    """Return the mean of ``values`` [N] with an interval within ``bounds`` that holds at any stopping time.

    A cluster's mean, scaled by the bounds, is one observation; clusters should be of one size. A value beyond the
    bounds, such as a forfeit's penalty, counts as the bound that it is beyond.
    """
    low, high = bounds
    by_cluster: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        by_cluster[cluster].append(min(max(value, low), high))
    scaled = [(math.fsum(part) / len(part) - low) / (high - low) for part in by_cluster.values()]
    least, most = confidence_interval([min(max(x, 0.0), 1.0) for x in scaled], confidence)
    mean = math.fsum(values) / len(values)
    return Estimate(mean, low + least * (high - low), low + most * (high - low))


def looks(deals: int) -> Iterator[int]:
    """Yield the numbers of deals after which to look; the last is all of them."""
    look = min(_FIRST, deals)
    yield look
    while look < deals:
        look = min(deals, int(look * _GROWTH))
        yield look
