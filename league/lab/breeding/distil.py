"""Distil: each run goes on from one model that plays as its own mixture does on average."""

from __future__ import annotations

from league.lab.breeding.succession import Descent, Succession
from league.population.storage.population import Origin


def descend(place: Succession) -> Descent:
    """Return the candidate with the weights of its distilled mixture."""
    own = place.candidate
    return Descent(
        own,
        own.settings,
        place.workshop.distilled(own.run),
        Origin.DISTILLED,
        (f"{own.newest}@mixture",),
        f"distilled from {own.newest}@mixture, then trained",
    )
