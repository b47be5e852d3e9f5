"""Breeding rules: where the next holder of each place in a population of runs comes from.

A rule answers for one ``Succession``, a place in the next generation, with a ``Descent``. Weights are combined in
``weights.py``; runs are read, distilled and played by the place's ``workshop``.

To add a rule: write its function here and its entry below; from outside, give it to ``league.register_breeding``. Its
own settings, if it has some, are ``place.settings.NAME``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from games.common.registry import Entry, Registry
from league.config.matchmaking import DescentConfig
from league.lab.breeding.succession import Descent, Succession, Weights
from league.population.storage.population import Origin


@dataclass(frozen=True, slots=True)
class BreedingRule(Entry[Callable[[Succession], Descent]]):
    """A breeding rule; ``make(place)`` says who holds a place next."""

    explores: bool = False  # settings change (``descent.mutate``), and those of the first generation differ


def go_on(place: Succession) -> Descent:
    """Go on: each run descends from itself, under the settings that it has."""
    return Descent(place.candidate, place.candidate.settings)


def go_back(place: Succession) -> Descent:
    """Go back: a run that got worse begins again from where it stood a generation ago, and plays other matches.

    Worse is what the gate calls so: that the one before it was better.
    """
    if place.before is not None and (verdict := place.better(place.before, place.candidate)).better:
        how = f"went back to {place.before.newest}, which was better ({verdict})"
        return Descent(place.before, place.before.settings, parents=(place.before.newest,), how=how, reseed=True)
    return Descent(place.candidate, place.candidate.settings)


def distil(place: Succession) -> Descent:
    """Distil: each run goes on from one model that plays as its own mixture does on average."""
    own = place.candidate
    return Descent(
        own,
        own.settings,
        place.workshop.distilled(own.run),
        Origin.DISTILLED,
        (f"{own.newest}@mixture",),
        f"distilled from {own.newest}@mixture, then trained",
    )


def mutate(place: Succession) -> Descent:
    """Mutate: population-based training (Jaderberg et al. 2017, arXiv 1711.09846), gated.

    The upper half goes on. Of the lower half each is compared with one of the upper half: where the gate says that this
    one is better, its run is gone on with (exploit); where nothing shows that, the weights stay. Either way the
    settings change (explore): multiplied or divided by a factor, or drawn anew, log-uniformly, from their whole range.
    """
    own = place.candidate
    if not place.gives_way:
        return Descent(own, own.settings)
    upper = (len(place.ranking) + 1) // 2
    rival = place.ranking[place.rank % upper]
    verdict = place.better(rival, own)
    source = rival if verdict.better else own
    settings = explored(source.settings, place.settings, place.rng)
    changes = ", ".join(f"{name} {source.settings[name]:.3g} to {value:.3g}" for name, value in settings.items())
    taken = f"took over {rival.newest} ({verdict})" if verdict.better else f"stayed, as {rival.newest} is no better"
    return Descent(source, settings, parents=(source.newest,), how=f"{taken}; explores {changes}", reseed=True)


def explored(settings: Mapping[str, float], config: DescentConfig, rng: random.Random) -> dict[str, float]:
    """Return settings near these, within their ranges."""
    found = {}
    for name, value in settings.items():
        low, high = config.mutate[name]
        if rng.random() < config.resample:
            found[name] = math.exp(rng.uniform(math.log(low), math.log(high)))
        else:
            found[name] = value * config.factor ** rng.choice((-1, 1))
        found[name] = min(max(found[name], low), high)
    return found


def merge(place: Succession) -> Descent:
    """Merge: the lower half is replaced by the merged weights of the best few, which go on themselves."""
    from league.lab.breeding.weights import combined, ties, weighted  # torch is slow to import

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


def cross(place: Succession) -> Descent:
    """Cross: the lower half is replaced by children of two of the upper half, mutated along singular vectors."""
    import torch  # slow to import

    from league.lab.breeding.weights import combined, crossed

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


def generations(place: Succession) -> Descent:
    """Begin each generation untrained, and let it learn from the best of the last one's play, less and less.

    Cultural transmission (Cook et al. 2024, arXiv 2406.00392): access to the last generation is annealed to zero, so
    what a child does not find by itself it cannot keep.
    """
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


BREEDING_RULES: Registry[BreedingRule] = Registry(
    "breeding",
    "breeding rule",
    BreedingRule,
    "descent.rule",
    {
        "go_on": BreedingRule(go_on),
        "go_back": BreedingRule(go_back),
        "distil": BreedingRule(distil),
        "mutate": BreedingRule(mutate, explores=True),
        "merge": BreedingRule(merge),
        "cross": BreedingRule(cross),
        "generations": BreedingRule(generations),
    },
    reserved=DescentConfig.model_fields,
)
register = BREEDING_RULES.register
