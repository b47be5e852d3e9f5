"""Cross: the lower half is replaced by children of two of the upper half, mutated along singular vectors."""

from __future__ import annotations

import torch

from league.lab.breeding.succession import Descent, Succession
from league.lab.breeding.weights import combined, crossed
from league.population.storage.population import Origin


def descend(place: Succession) -> Descent:
    """Return the candidate; if it is of the lower half, a child of two that are drawn from the upper half."""
    own = place.candidate
    if not place.gives_way:
        return Descent(own, own.settings)
    upper = place.ranking[: max((len(place.ranking) + 1) // 2, 2)]
    mother, father = place.rng.sample(upper, 2)
    generator = torch.Generator().manual_seed(place.rng.getrandbits(62))
    rule = crossed(place.settings.noise, generator)
    base = place.workshop.root(mother.run)
    theirs = [place.workshop.weights(parent.run) for parent in (mother, father)]
    weights = {policy: combined([found[policy] for found in theirs], base[policy], rule) for policy in theirs[0]}
    names = (mother.newest, father.newest)
    how = f"crossed from {names[0]} and {names[1]}, mutated along singular vectors, then trained"
    return Descent(mother, mother.settings, weights, Origin.CROSSED, names, how, reseed=True)
