"""Prioritised fictitious self-play: meet the past players that are most informative to play.

AlphaStar (Vinyals et al. 2019, Nature 575, "Methods: matchmaking"): learner A meets B with
P(B) = f(x_B) / Σ_C f(x_C), where x_B = P(A beats B) and
    hard      f(x) = (1 − x)^p    those that beat A
    variance  f(x) = x (1 − x)    those as strong as A
    even      f(x) = 1            everyone
Where every weight is zero (A beats all of them) the draw is uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.population.matchmaking.opponent_pool import OpponentPool, normalised


def pfsp(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]."""
    return probabilities(pool.win_rates(), pool.config.pfsp_weighting, pool.config.pfsp_power)


def probabilities(win_rates: NDArray[np.float64], weighting: str, power: float) -> NDArray[np.float64]:
    """Return P(B) [N] for the learner's win rates x_B [N]."""
    weights = {
        "hard": (1.0 - win_rates) ** power,
        "variance": win_rates * (1.0 - win_rates),
        "even": np.ones_like(win_rates),
    }[weighting]
    return normalised(weights)
