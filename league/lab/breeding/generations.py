"""Generations: each begins untrained, and learns from the best of the last one's play, less and less.

Cultural transmission (Cook et al. 2024, arXiv 2406.00392): access to the last generation is annealed to zero, so what a
child does not find by itself it cannot keep.
"""

from __future__ import annotations

from league.lab.breeding.succession import Descent, Succession
from league.population.storage.population import Origin


def descend(place: Succession) -> Descent:
    """Return the candidate with the weights before training, and the best run's matches to imitate."""
    own, best = place.candidate, place.ranking[0]
    return Descent(
        own,
        own.settings,
        place.workshop.root(own.run),
        Origin.RESET,
        (best.newest,),
        f"begun anew, imitating the play of {best.newest} at first",
        imitate=place.workshop.played(best.run),
        reseed=True,
    )
