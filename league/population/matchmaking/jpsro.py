"""Joint PSRO: meet the line-ups of a correlated equilibrium of the population.

Marris et al. 2021 (arXiv 2106.09435): the meta-strategy is a joint distribution σ over line-ups, so
games of any number of players and sums have one. A response of player p trains against the others'
part of it: σ(a_-p) for a coarse correlated equilibrium, σ(a_-p | a_p) for a correlated one, where a_p is
the snapshot recommended to p, which p learns to beat.
"""

from __future__ import annotations

import numpy as np

from league.population.matchmaking.opponent_pool import systematic_sample
from league.population.storage.members import MetaStrategy


def jpsro(meta: MetaStrategy, seat: int, size: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Draw ``size`` line-ups for a policy that learns in one seat, by systematic sampling."""
    recommended = meta.advised[seat] if meta.advised else None
    allowed = [(lineup, weight) for lineup, weight in meta.joint if recommended in (None, lineup[seat])]
    drawn = systematic_sample([weight for _, weight in allowed], size, rng)
    return [allowed[index][0] for index in drawn]
