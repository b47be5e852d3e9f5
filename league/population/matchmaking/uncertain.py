"""Information-seeking: meet the past players against whom the learner's win rate is least certain.

After n matches with win rate x, the win rate has the posterior Beta(n x + 1, n (1 − x) + 1) under a uniform
prior, and P(B) is in proportion to its standard deviation: greatest for players never met, and for equally
strong ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.population.matchmaking.opponent_pool import OpponentPool


def uncertain(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]."""
    deviations = np.sqrt(variance(pool.records[..., 0], pool.records[..., 1])).mean(axis=0)
    return np.asarray(deviations / deviations.sum())


def variance(score: NDArray[np.float64], matches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the posterior variance of a win rate; without a match it is 1/12."""
    wins, losses = matches * score + 1.0, matches * (1.0 - score) + 1.0
    return wins * losses / ((matches + 2.0) ** 2 * (matches + 3.0))
