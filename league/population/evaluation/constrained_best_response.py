"""The exact best response of an attacker with a budget, in a game small enough to enumerate.

With reference ρ, control c and distance d (arena/samplers/policy_net.py) an attacker may play, at each of its
information states, any (1 − c) ρ + c ν with TV(ν, ρ) ≤ d. The bounds hold at each state separately, so backward
induction is exact, as without them. With Q(a) the value of action a, the value of a state is

    V = (1 − c) ρ·Q + c max over ν of ν·Q,

and the maximum moves as much probability as d allows from the worst actions to the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena.samplers.policy_net import Budget
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.sequence_form import sequence_form
from league.theory.exact.states import Key


class ConstrainedResponse(NamedTuple):
    """The best policy of an attacker within its budget."""

    value: float  # the seat's expected return
    policy: Mapping[Key, tuple[float, ...]]  # by the seat's information states; action ids ascending


def constrained_best_response(target: PolicyTable, reference: PolicyTable, seat: int, budget: Budget) -> float:
    """Return the most that ``seat`` can expect within the budget while all other seats follow ``target``.

    Raises UsageError for a game that is too large to enumerate.
    """
    return constrained_response(target, reference, seat, budget).value


def constrained_response(
    target: PolicyTable, reference: PolicyTable, seat: int, budget: Budget, harm: bool = False
) -> ConstrainedResponse:
    """Return the best policy of ``seat`` within the budget while all other seats follow ``target``, and its value.

    With ``harm`` the attacker wants the others to get little: its value is minus their mean return.

    Raises UsageError for a game that is too large to enumerate.
    """
    form = sequence_form(target.game)
    plan = form.plan([target.probabilities[key] for key in form.keys])
    weights = form.chance * plan[np.delete(form.last, seat, axis=1)].prod(axis=1)
    wanted = -np.delete(form.returns, seat, axis=1).mean(axis=1) if harm else form.returns[:, seat]
    gains = np.bincount(form.last[:, seat], weights * wanted, form.sequences)
    policy = {}
    for index in range(len(form.keys) - 1, -1, -1):
        key = form.keys[index]
        if key[0] == seat:
            values = gains[form.first[index] : form.first[index] + len(form.legal[index])].tolist()
            policy[key] = _constrained_policy(values, reference.probabilities[key], budget)
            gains[form.parent[index]] += _dot(policy[key], values)
    return ConstrainedResponse(float(gains[seat]), policy)


def _constrained_policy(values: list[float], reference: tuple[float, ...], budget: Budget) -> tuple[float, ...]:
    """Return the policy that attains V of the formula above: probability moves from the worst actions to the best."""
    policy, best, distance_left = list(reference), values.index(max(values)), budget.distance
    for action in sorted(range(len(values)), key=values.__getitem__):
        moved = budget.control * min(distance_left, reference[action])
        policy[action] -= moved
        policy[best] += moved
        distance_left -= min(distance_left, reference[action])
    return tuple(policy)


def _dot(policy: Sequence[float], values: Sequence[float]) -> float:
    return sum(probability * value for probability, value in zip(policy, values, strict=True))
