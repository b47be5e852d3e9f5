"""Information-seeking: who should play whom next, so that one knows who is better.

The weight of a pair is the expected opportunity cost of calling it now (Chick and Inoue 2001, Operations
Research 49): what one expects to lose, in score a deal, by taking the one for the better who may be the worse,

    w = E[max(0, ½ - X)] = s (φ(z) - z Φ(-z)),  X ~ N(x, s²),  z = |x - ½| / s

for the one who is ahead. It is large where the result is uncertain *and* the players are close, and next to nothing
where more deals would only say by how much one is better. Two imaginary deals, one won by either, stand for what is
known before the first: x = (n score + 1) / (n + 2), and s² = v / (n + 3) with a deal's variance
v = (n v̂ + 2 ¼) / (n + 2), v̂ = n error². A pair that never met has x = ½ and s² = 1/12, as the uniform has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_UNKNOWN = 0.25  # the variance of a fair coin: a deal's where nothing is known


def informative(n: NDArray[np.float64], score: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of all pairs [N, N], symmetric with a zero diagonal, in score a deal.

    ``n`` are deals, ``score`` row's mean against column in [0, 1], ``error`` its standard error, clustered by
    deal; all [N, N]. Score and error are not read where n is 0, and an error that is not known (nan, of one
    deal) is a fair coin's. Raises ValueError for shapes that do not fit.
    """
    if not (n.ndim == 2 and n.shape[0] == n.shape[1] and n.shape == score.shape == error.shape):
        raise ValueError(
            f"expected three matrices [N, N], got {list(n.shape)}, {list(score.shape)}, {list(error.shape)}"
        )
    from scipy.special import ndtr  # takes a tenth of a second to import

    known = np.where(n > 0, score, 0.5)
    variance = np.where((n > 0) & np.isfinite(error), n * error**2, _UNKNOWN)
    spread = np.sqrt((n * variance + 2.0 * _UNKNOWN) / (n + 2.0) / (n + 3.0))
    ahead = np.abs(n * (known - 0.5)) / (n + 2.0) / spread
    weights = spread * np.maximum(np.exp(-(ahead**2) / 2.0) / np.sqrt(2.0 * np.pi) - ahead * ndtr(-ahead), 0.0)
    weights = np.maximum(weights, weights.T)  # equal but for rounding
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)
