"""Fictitious play: meet all past players with equal probability.

A best response to the average of past play is what fictitious play iterates (Brown 1951; Heinrich,
Lanctot and Silver 2015, "Fictitious self-play in extensive-form games"): P(B) = 1 / N.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.population.matchmaking.opponent_pool import OpponentPool


def fictitious(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]; no win rate is read."""
    return np.full(len(pool.players), 1.0 / len(pool.players))
