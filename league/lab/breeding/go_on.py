"""Go on: each run descends from itself, under the settings that it has."""

from __future__ import annotations

from league.lab.breeding.succession import Descent, Succession


def descend(place: Succession) -> Descent:
    """Return the candidate, unchanged."""
    return Descent(place.candidate, place.candidate.settings)
