"""The exact best response of an attacker with a budget, in a game small enough to enumerate.

With reference ρ, control c and distance d (arena/samplers/policy_net.py) an attacker may play, at each of its
information states, any (1 − c) ρ + c ν with TV(ν, ρ) ≤ d. The bounds hold at each state separately, so backward
induction is exact, as without them. With Q(a) the value of action a, the value of a state is

    V = (1 − c) ρ·Q + c max over ν of ν·Q,

and the maximum moves as much probability as d allows from the worst actions to the best.
"""

from __future__ import annotations

import numpy as np

from arena.samplers.policy_net import Budget
from league.exact.exploitability import PolicyTable
from league.exact.sequence_form import sequence_form


def constrained_best_response(target: PolicyTable, reference: PolicyTable, seat: int, budget: Budget) -> float:
    """Return the most that ``seat`` can expect within the budget while all other seats follow ``target``.

    Raises UsageError for a game that is too large to enumerate.
    """
    form = sequence_form(target.game)
    plan = form.plan([target.probabilities[key] for key in form.keys])
    weights = form.chance * plan[np.delete(form.last, seat, axis=1)].prod(axis=1)
    gains = np.bincount(form.last[:, seat], weights * form.returns[:, seat], form.sequences)
    for index in range(len(form.keys) - 1, -1, -1):
        if form.keys[index][0] == seat:
            actions = gains[form.first[index] : form.first[index] + len(form.legal[index])]
            gains[form.parent[index]] += _constrained_maximum(
                actions.tolist(), reference.probabilities[form.keys[index]], budget
            )
    return float(gains[seat])


def _constrained_maximum(values: list[float], reference: tuple[float, ...], budget: Budget) -> float:
    """Return V of the formula above for the action values of one information state."""
    expected = sum(probability * value for probability, value in zip(reference, values, strict=True))
    best, distance_left, gain = max(values), budget.distance, 0.0
    for value, probability in sorted(zip(values, reference, strict=True)):
        moved = min(distance_left, probability)
        gain += moved * (best - value)
        distance_left -= moved
    return expected + budget.control * gain
