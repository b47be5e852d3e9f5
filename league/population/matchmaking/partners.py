"""Partners: learn to play with strangers, by meeting past partners who have agreed on other things.

Fictitious co-play (Strouse et al. 2021, arXiv 2110.08176): partners of equal settings each learn with themselves alone,
so that each comes to conventions of its own; whoever meets all of them, as they were at all times of their training,
learns to go along with the unskilled too. The population grows with every snapshot, as in Gupta et al. 2021 (arXiv
2110.14241). Each of K partners is met equally often, and each of its n_k snapshots: P(B) = 1 / (K n_k).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from league.population.matchmaking.opponent_pool import OpponentPool


def partners(pool: OpponentPool) -> NDArray[np.float64]:
    """Return the probability of each player [N]; all 0 where there is no partner."""
    is_partner = [kind == "partner" for kind in pool.kinds]
    snapshots = Counter(policy for policy, chosen in zip(pool.policies, is_partner, strict=True) if chosen)
    shares = [
        1.0 / (len(snapshots) * snapshots[policy]) if chosen else 0.0
        for policy, chosen in zip(pool.policies, is_partner, strict=True)
    ]
    return np.array(shares)
