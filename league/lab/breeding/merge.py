"""Merge: the lower half is replaced by the merged weights of the best, which go on themselves."""

from __future__ import annotations

from league.lab.breeding.succession import Descent, Succession, Weights
from league.lab.breeding.weights import combined, ties, weighted
from league.population.storage.population import Origin


def descend(place: Succession) -> Descent:
    """Return the candidate; if it is of the lower half, the best run with weights merged from the best few."""
    own, config = place.candidate, place.settings
    if not place.gives_way:
        return Descent(own, own.settings)
    best, parents = place.ranking[0], place.ranking[: config.parents]
    shares = [float(len(parents) - rank) for rank in range(len(parents))]  # the best has the greatest
    rule = ties(config.density) if config.merge == "ties" else weighted(shares)
    told = f"TIES, density {config.density:g}" if config.merge == "ties" else "weighted by rank"
    base = place.workshop.root(best.run)
    theirs = [place.workshop.weights(parent.run) for parent in parents]
    weights: dict[str, Weights] = {
        policy: combined([found[policy] for found in theirs], base[policy], rule) for policy in theirs[0]
    }
    names = tuple(parent.newest for parent in parents)
    how = f"merged from {', '.join(names)} ({told}), then trained"
    return Descent(best, best.settings, weights, Origin.MERGED, names, how, reseed=True)
