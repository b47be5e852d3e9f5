"""Policy-space response oracles: meet the population as its meta-strategy mixes it.

Lanctot et al. 2017 (arXiv 1711.00832): each epoch trains a response to the meta-strategy of the empirical
game, which then joins the population. Here an epoch is what lies between two snapshots, and the
response is a training run with that budget: P(B) = σ(B), fixed until the next snapshot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.matchmaking.pool import OpponentPool


def psro(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]; uniform where the meta-strategy knows none of them."""
    weights = np.array([pool.meta.get(player, 0.0) for player in pool.players])
    total = weights.sum()
    return weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights))
