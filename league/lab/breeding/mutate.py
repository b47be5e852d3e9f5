"""Mutate: population-based training (Jaderberg et al. 2017, arXiv 1711.09846), gated.

The upper half goes on. Of the lower half each is compared with one of the upper half: where the gate says that this one
is better, its run is gone on with (exploit); where nothing shows that, the weights stay. Either way the settings change
(explore): multiplied or divided by a factor, or drawn anew, log-uniformly, from their whole range.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from league.config.matchmaking import DescentConfig
from league.lab.breeding.succession import Descent, Succession


def descend(place: Succession) -> Descent:
    """Return the candidate, or, with settings of its own, the better one that it is compared with."""
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
