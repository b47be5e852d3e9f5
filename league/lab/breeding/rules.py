"""Breeding rules: how each slot of the next generation is filled.

A rule maps one ``Slot`` of the next generation to a ``Descent``. Weights are combined in ``weights.py``; the slot's
``operations`` read, distil and play runs.

To add a rule, write its function here and its entry below; a plugin passes it to ``league.register_breeding``. Its
own settings, if any, are ``slot.settings.NAME``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from games.common.registry import Entry, Registry
from league.config.matchmaking import DescentConfig
from league.lab.breeding.slot import Descent, Slot, Weights
from league.population.storage.population import Origin

DENSITY = 0.2  # share of each parent's changes that TIES-Merging keeps
NOISE = 0.1  # standard deviation of a crossing's shares, and of the logs of its singular values' factors


@dataclass(frozen=True, slots=True)
class BreedingRule(Entry[Callable[[Slot], Descent]]):
    """A breeding rule; ``make(slot)`` says what fills a slot next."""

    explores: bool = False  # it changes settings (``descent.mutate``), and the first generation's differ


def keep(slot: Slot) -> Descent:
    """Go on: each run continues under its present settings."""
    return Descent(slot.candidate, slot.candidate.settings)


def revert(slot: Slot) -> Descent:
    """Go back: a run that got worse restarts from its state a generation ago, and plays other matches.

    It got worse if the gate finds that its predecessor was better.
    """
    if slot.before is not None and (verdict := slot.better(slot.before, slot.candidate)).better:
        how = f"went back to {slot.before.newest}, which was better ({verdict})"
        return Descent(slot.before, slot.before.settings, parents=(slot.before.newest,), how=how, reseed=True)
    return Descent(slot.candidate, slot.candidate.settings)


def distil(slot: Slot) -> Descent:
    """Distil: each run continues from one model that plays as its own mixture does on average."""
    candidate = slot.candidate
    return Descent(
        candidate,
        candidate.settings,
        slot.operations.distilled(candidate.run),
        Origin.DISTILLED,
        (f"{candidate.newest}@mixture",),
        f"distilled from {candidate.newest}@mixture, then trained",
    )


def mutate(slot: Slot) -> Descent:
    """Mutate: population-based training (Jaderberg et al. 2017, arXiv 1711.09846), gated.

    The upper half continues. Each of the lower half is compared with one of the upper half: if the gate finds that one
    better, the slot continues its run (exploit), otherwise the weights stay. Either way the settings change (explore):
    they are multiplied or divided by a factor, or drawn log-uniformly from their whole range.
    """
    candidate = slot.candidate
    if not slot.is_replaced:
        return Descent(candidate, candidate.settings)
    upper = (len(slot.ranking) + 1) // 2
    rival = slot.ranking[slot.rank % upper]
    verdict = slot.better(rival, candidate)
    source = rival if verdict.better else candidate
    settings = explored(source.settings, slot.settings, slot.rng)
    changes = ", ".join(f"{name} {source.settings[name]:.3g} to {value:.3g}" for name, value in settings.items())
    exploit = f"took over {rival.newest} ({verdict})" if verdict.better else f"stayed, as {rival.newest} is no better"
    return Descent(source, settings, parents=(source.newest,), how=f"{exploit}; explores {changes}", reseed=True)


def explored(settings: Mapping[str, float], config: DescentConfig, rng: random.Random) -> dict[str, float]:
    """Return settings near these, within their ranges."""
    values = {}
    for name, value in settings.items():
        low, high = config.mutate[name]
        if rng.random() < config.resample:
            values[name] = math.exp(rng.uniform(math.log(low), math.log(high)))
        else:
            values[name] = value * config.factor ** rng.choice((-1, 1))
        values[name] = min(max(values[name], low), high)
    return values


def merge(slot: Slot) -> Descent:
    """Merge: the lower half is replaced by the merged weights of the best few, which continue unchanged."""
    from league.lab.breeding.weights import combined, ties, weighted  # torch is slow to import

    candidate, config = slot.candidate, slot.settings
    if not slot.is_replaced:
        return Descent(candidate, candidate.settings)
    best, parents = slot.ranking[0], slot.ranking[: config.parents]
    shares = [float(len(parents) - rank) for rank in range(len(parents))]  # the best has the greatest
    rule = ties(DENSITY) if config.merge == "ties" else weighted(shares)
    method = f"TIES, density {DENSITY:g}" if config.merge == "ties" else "weighted by rank"
    base = slot.operations.root(best.run)
    all_weights = [slot.operations.weights(parent.run) for parent in parents]
    weights: dict[str, Weights] = {
        policy: combined([parent_weights[policy] for parent_weights in all_weights], base[policy], rule)
        for policy in all_weights[0]
    }
    names = tuple(parent.newest for parent in parents)
    how = f"merged from {', '.join(names)} ({method}), then trained"
    return Descent(best, best.settings, weights, Origin.MERGED, names, how, reseed=True)


def cross(slot: Slot) -> Descent:
    """Cross: the lower half is replaced by children of two of the upper half, mutated along singular vectors."""
    import torch  # slow to import

    from league.lab.breeding.weights import combined, crossed

    candidate = slot.candidate
    if not slot.is_replaced:
        return Descent(candidate, candidate.settings)
    upper = slot.ranking[: max((len(slot.ranking) + 1) // 2, 2)]
    mother, father = slot.rng.sample(upper, 2)
    generator = torch.Generator().manual_seed(slot.rng.getrandbits(62))
    rule = crossed(NOISE, generator)
    base = slot.operations.root(mother.run)
    all_weights = [slot.operations.weights(parent.run) for parent in (mother, father)]
    weights = {
        policy: combined([parent_weights[policy] for parent_weights in all_weights], base[policy], rule)
        for policy in all_weights[0]
    }
    names = (mother.newest, father.newest)
    how = f"crossed from {names[0]} and {names[1]}, mutated along singular vectors, then trained"
    return Descent(mother, mother.settings, weights, Origin.CROSSED, names, how, reseed=True)


def generations(slot: Slot) -> Descent:
    """Start each generation untrained, and let it imitate the last generation's best players, less and less.

    Cultural transmission (Cook et al. 2024, arXiv 2406.00392): access to the last generation is annealed to zero, so
    a child keeps only behaviour that it can find by itself.
    """
    candidate, best = slot.candidate, slot.ranking[0]
    return Descent(
        candidate,
        candidate.settings,
        slot.operations.root(candidate.run),
        Origin.RESET,
        (best.newest,),
        f"started from scratch, imitating the play of {best.newest} at first",
        imitate=slot.operations.played(best.run),
        reseed=True,
    )


BREEDING_RULES: Registry[BreedingRule] = Registry(
    "breeding",
    "breeding rule",
    BreedingRule,
    "descent.rule",
    {
        "go_on": BreedingRule(keep),
        "go_back": BreedingRule(revert),
        "distil": BreedingRule(distil),
        "mutate": BreedingRule(mutate, explores=True),
        "merge": BreedingRule(merge),
        "cross": BreedingRule(cross),
        "generations": BreedingRule(generations),
    },
    reserved=DescentConfig.model_fields,
)
register = BREEDING_RULES.register
