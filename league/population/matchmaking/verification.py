"""Verification: meet past players that the learner forgot how to beat, and exploiters that found a weakness.

The third branch of AlphaStar's main players (Vinyals et al. 2019, supplementary pseudocode): if the win rate
against some main exploiter's snapshot is below ``beaten``, PFSP over those snapshots; else, if that against some
past main is below ``forgotten``, PFSP over past mains, without the newest ones as long as each is harder than the
one before it: that they are hard is progress, not forgetting.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.population.matchmaking.opponent_pool import OpponentPool
from league.population.matchmaking.pfsp import probabilities


def verification(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]; all 0 where there is nothing to verify."""
    rates, config = pool.win_rates(), pool.config
    exploiters = np.array([kind == "main_exploiter" for kind in pool.kinds], dtype=bool)
    mains = np.array([kind == "main" for kind in pool.kinds], dtype=bool)
    chosen = np.flatnonzero(exploiters)
    if not (len(chosen) and rates[chosen].min() < config.beaten):
        chosen = np.flatnonzero(mains)
        chosen = chosen[: without_monotonic_suffix(rates[chosen])]
        if not (len(chosen) and rates[chosen].min() < config.forgotten):
            return np.zeros(len(pool.players))
    weights = np.zeros(len(pool.players))
    weights[chosen] = probabilities(rates[chosen], "hard", config.pfsp_power)
    return weights


def without_monotonic_suffix(rates: NDArray[np.float64]) -> int:
    """Return how many of the rates [N], oldest first, are left without the newest ones that only fall."""
    for index in range(len(rates) - 1, 0, -1):
        if rates[index - 1] < rates[index]:
            return index + 1
    return 0
