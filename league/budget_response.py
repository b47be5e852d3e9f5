"""The exact best that an attacker with a budget can do in a game small enough to be counted out.

With reference ρ, control c and distance d (arena/samplers/network.py) an attacker may play, at each of its
information states, any (1 − c) ρ + c ν with TV(ν, ρ) ≤ d. The bounds hold at each state by itself, so the best
is found backwards as without them: with Q(a) what action a comes to,

    V = (1 − c) ρ·Q + c max over ν of ν·Q,

and the maximum moves as much as d allows from the worst actions to the best.
"""

from __future__ import annotations

import numpy as np

from arena.samplers.network import Budget
from league.exploitability import PolicyTable
from league.sequence_form import sequence_form


def budget_best_response(target: PolicyTable, reference: PolicyTable, seat: int, budget: Budget) -> float:
    """Return the most that ``seat`` can expect within the budget while all others follow ``target``.

    Raises UsageError for a game that the sequence form cannot hold.
    """
    form = sequence_form(target.game)
    plan = form.plan([target.probabilities[key] for key in form.keys])
    weights = form.chance * plan[np.delete(form.last, seat, axis=1)].prod(axis=1)
    gains = np.bincount(form.last[:, seat], weights * form.returns[:, seat], form.sequences)
    for index in range(len(form.keys) - 1, -1, -1):
        if form.keys[index][0] == seat:
            actions = gains[form.first[index] : form.first[index] + len(form.legal[index])]
            gains[form.parent[index]] += _best(actions.tolist(), reference.probabilities[form.keys[index]], budget)
    return float(gains[seat])


def _best(gains: list[float], reference: tuple[float, ...], budget: Budget) -> float:
    """Return V of the formula above for one information state."""
    kept = sum(share * gain for share, gain in zip(reference, gains, strict=True))
    best, left, moved = max(gains), budget.distance, 0.0
    for gain, share in sorted(zip(gains, reference, strict=True)):
        mass = min(left, share)
        moved += mass * (best - gain)
        left -= mass
    return kept + budget.control * moved
