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

_PRIOR_VARIANCE = 0.25  # of a deal, as of a fair coin
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def opportunity_cost(
    deals: NDArray[np.float64], score: NDArray[np.float64], error: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weights of all pairs [N, N], symmetric with a zero diagonal, in score a deal.

    ``deals`` counts n, ``score`` is the row player's mean against the column player in [0, 1], ``error`` its
    standard error, clustered by deal; all [N, N]. Score and error are not read where n is 0; an error that is nan
    (after one deal) counts as a fair coin's. Raises ValueError for shapes that do not fit.
    """
    n = deals
    if not (n.ndim == 2 and n.shape[0] == n.shape[1] and n.shape == score.shape == error.shape):
        raise ValueError(
            f"expected three matrices [N, N], got {list(n.shape)}, {list(score.shape)}, {list(error.shape)}"
        )
    pairs = np.triu_indices(len(n), 1)  # the other way round all is equal, up to rounding
    n, score, error = n[pairs], score[pairs], error[pairs]
    mean = np.where(n > 0, score, 0.5)
    variance = np.where((n > 0) & np.isfinite(error), n * error**2, _PRIOR_VARIANCE)
    spread = np.sqrt((n * variance + 2.0 * _PRIOR_VARIANCE) / (n + 2.0) / (n + 3.0))
    z = np.abs(n * (mean - 0.5)) / (n + 2.0) / spread
    above = np.asarray(_ERFC(z / math.sqrt(2.0)), np.float64) / 2.0  # P(Z > z); scipy takes longer to import
    weights = np.zeros(deals.shape)
    weights[pairs] = spread * np.maximum(np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi) - z * above, 0.0)
    return np.asarray(np.maximum(weights, weights.T))
