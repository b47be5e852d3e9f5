"""Verification: meet again what the learner has forgotten how to beat, and exploiters that found a weakness.

The third branch of AlphaStar's main players (Vinyals et al. 2019, supplementary pseudocode): where a
main exploiter's snapshot is beaten in less than ``beaten`` of the matches, PFSP over those snapshots;
else where a past main is beaten in less than ``forgotten``, PFSP over past mains, without the newest ones as long
as each is harder than the one before it: that they are hard is progress, not forgetting.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.matchmaking.pfsp import probabilities
from league.matchmaking.pool import OpponentPool


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
    """Return how many of the rates [N], oldest first, come before the newest that only fall."""
    for place in range(len(rates) - 1, 0, -1):
        if rates[place - 1] < rates[place]:
            return place + 1
    return 0
