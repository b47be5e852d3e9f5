"""Where a policy loses most: by information state, how often it is visited times what its best action would gain.

For seat s at information state I under the behaviour σ of all seats,

    visit(I) · regret(I) = visit(I) · max over a of A(I, a)

with the visit chance and the advantages of ``exact.turn_values``: the seat's own chance of getting there times
its counterfactual regret (Zinkevich et al. 2007, "Regret minimization in games with incomplete information"). It is 0
everywhere in an equilibrium.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.sequence_form import SequenceForm
from league.theory.exact.turn_values import turn_values


def visit_regrets(form: SequenceForm, table: PolicyTable) -> NDArray[np.float64]:
    """Return visit times regret of each information state [I], in the game's units a match."""
    turns = turn_values(form, [table.probabilities[key] for key in form.keys])
    best = np.maximum.reduceat(np.nan_to_num(turns.advantages), turns.first[:-1])
    return np.asarray(turns.visits * best)
