"""The expected opportunity cost of deciding now which of two players is better: which pair should play next.

The weight of a pair (Chick and Inoue 2001, Operations Research 49) is the expected loss, in score a deal, of selecting
the leading player although the other may be better,

    w = E[max(0, ½ - X)] = s (φ(z) - z Φ(-z)),  X ~ N(x, s²),  z = |x - ½| / s

with x the leader's score. It is large where the result is uncertain *and* the players are close, and near zero where
more deals would only show by how much one is better. The prior is two pseudo-deals, one won by each:
x = (n score + 1) / (n + 2), and s² = v / (n + 3) with a deal's variance v = (n v̂ + 2 ¼) / (n + 2), v̂ = n error².
A pair that never met has x = ½ and s² = 1/12, those of the uniform distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PRIOR_VARIANCE = 0.25  # of a deal, as of a fair coin
_ERFC = np.frompyfunc(math.erfc, 1, 1)
_ROUNDING = 1e-9  # of a bound, as a share of it


def opportunity_cost(deals: Floats, score: Floats, error: Floats) -> Floats:
    """Return the weights of all pairs [N, N], symmetric with a zero diagonal, in score a deal.

    ``deals`` counts n, ``score`` is the row player's mean against the column player in [0, 1], ``error`` its
    standard error, clustered by deal; all [N, N]. Score and error are not read where n is 0; an error that is nan
    (after one deal) counts as a fair coin's. Raises ValueError for shapes that do not fit.
    """
    if not (deals.ndim == 2 and deals.shape[0] == deals.shape[1] and deals.shape == score.shape == error.shape):
        raise ValueError(
            f"expected three matrices [N, N], got {list(deals.shape)}, {list(score.shape)}, {list(error.shape)}"
        )
    pairs = np.triu_indices(len(deals), 1)  # the other way round all is equal, up to rounding
    weights = np.zeros(deals.shape)
    weights[pairs] = _weights(*_posterior(deals[pairs], score[pairs], error[pairs]))
    return np.asarray(np.maximum(weights, weights.T))


def greatest_costs(deals: Floats, score: Floats, error: Floats, most: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the places of the ``most`` greatest weights of K pairs, and of all that equal the last, with the weights.

    The arguments are those of ``opportunity_cost`` for each pair [K]; places ascend. Weights are computed only where
    a bound, w <= s φ(z) / (1 + z²), is not below weights that are known: the tail Φ takes longer than all else.
    """
    spread, z = _posterior(deals, score, error)
    if len(z) <= most:
        return np.arange(len(z)), _weights(spread, z)
    bounds = spread * _density(z) / (1.0 + z * z)
    likely = np.argpartition(bounds, -most)[-most:]
    places = np.flatnonzero(bounds >= (1.0 - _ROUNDING) * _weights(spread[likely], z[likely]).min())
    weights = _weights(spread[places], z[places])
    greatest = weights >= np.partition(weights, -most)[-most]
    return places[greatest], weights[greatest]


def _posterior(n: Floats, score: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Return s and z of each pair."""  # all [K]
    mean = np.where(n > 0, score, 0.5)
    variance = np.where((n > 0) & np.isfinite(error), n * error**2, _PRIOR_VARIANCE)
    spread = np.sqrt((n * variance + 2.0 * _PRIOR_VARIANCE) / (n + 2.0) / (n + 3.0))
    return spread, np.abs(n * (mean - 0.5)) / (n + 2.0) / spread


def _weights(spread: Floats, z: Floats) -> Floats:
    above = np.asarray(_ERFC(z / math.sqrt(2.0)), np.float64) / 2.0  # P(Z > z); scipy takes longer to import
    return np.asarray(spread * np.maximum(_density(z) - z * above, 0.0))


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi))
