"""Where a policy loses most: by information state, how often it is visited times what its best action would gain.

For seat s at information state I under the behaviour σ of all seats,

    visit(I) · regret(I) = x_s(I) · [max over a of v(I, a) − Σ_a σ(a | I) v(I, a)],

where v(I, a) is the counterfactual value (Zinkevich et al. 2007, "Regret minimization in games with incomplete
information"): what the seat expects from a on under σ, times the probability of chance and of the other seats to get
there; and x_s(I) is the probability of the seat's own moves on the way. It is 0 everywhere in an equilibrium.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.exact.exploitability import PolicyTable
from league.exact.sequence_form import SequenceForm


def visit_regrets(form: SequenceForm, table: PolicyTable) -> NDArray[np.float64]:
    """Return visit times regret of each information state [I], in the game's units a match."""
    behaviour = [table.probabilities[key] for key in form.keys]
    plan = form.plan(behaviour)
    regrets = np.zeros(len(form.keys))
    for seat in range(form.seats):
        others = np.delete(form.last, seat, axis=1)
        weights = form.chance * plan[others].prod(axis=1) * form.returns[:, seat]
        values = np.bincount(form.last[:, seat], weights, form.sequences).tolist()
        for index in range(len(form.keys) - 1, -1, -1):
            if form.keys[index][0] == seat:
                first = form.first[index]
                action_values = values[first : first + len(form.legal[index])]
                value = sum(p * v for p, v in zip(behaviour[index], action_values, strict=True))
                regrets[index] = plan[form.parent[index]] * (max(action_values) - value)
                values[form.parent[index]] += value
    return regrets
