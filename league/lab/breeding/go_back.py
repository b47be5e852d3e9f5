"""Go back: a run that got worse begins again from where it stood a generation ago, and plays other matches."""

from __future__ import annotations

from league.lab.breeding.succession import Descent, Succession


def descend(place: Succession) -> Descent:
    """Return the candidate, or the one before it where the gate says that that was better."""
    if place.before is not None and (verdict := place.better(place.before, place.candidate)).better:
        how = f"went back to {place.before.newest}, which was better ({verdict})"
        return Descent(place.before, place.before.settings, parents=(place.before.newest,), how=how, reseed=True)
    return Descent(place.candidate, place.candidate.settings)
