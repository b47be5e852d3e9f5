"""Policy-space response oracles: meet past players as the meta-strategy weighs them.

Lanctot et al. 2017 (arXiv 1711.00832): each epoch trains a response to the meta-strategy of the empirical
game, which then joins the population. Here an epoch is the time between two snapshots, and the
response is what training finds in it: P(B) = σ(B), fixed until the next snapshot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.population.matchmaking.opponent_pool import OpponentPool, normalised


def psro(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]; uniform where the meta-strategy has none of them."""
    return normalised(np.array([pool.meta_weights.get(player, 0.0) for player in pool.players]))
