"""Joint PSRO: meet the line-ups of a correlated equilibrium of the population.

Marris et al. 2021 (arXiv 2106.09435): the meta-strategy is a joint distribution σ over line-ups, so
games of any number of players and sums have one. A response of player p trains against the others'
part of it: σ(a_-p) for a coarse correlated equilibrium, σ(a_-p | a_p) for a correlated one, where a_p is
the snapshot that p was told to play and now learns to do better than.
"""

from __future__ import annotations

import numpy as np

from league.matchmaking.pool import Meta


def jpsro(meta: Meta, seat: int, size: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Draw ``size`` line-ups for a policy that learns in one seat, by systematic sampling, in random order."""
    told = meta.advised[seat] if meta.advised else None
    allowed = [(lineup, weight) for lineup, weight in meta.joint if told in (None, lineup[seat])]
    cumulative = np.cumsum([weight for _, weight in allowed])
    points = (rng.random() + np.arange(size)) / size * cumulative[-1]
    drawn = np.minimum(np.searchsorted(cumulative, points, side="right"), len(allowed) - 1)
    return [allowed[place][0] for place in rng.permutation(drawn)]
