"""Regret in games that are small enough: of a run over its snapshots, and of a policy by information state.

A run's regret is how much more the best fixed policy would have won, in hindsight. Snapshot t of a seat meets the other
seats' snapshot t, and u_s is the exact expected return:

    R_s = 1/T [max over π of sum_t u_s(π, σ_-s^t) − sum_t u_s(σ^t)]

The maximum is one best response to the sum of the others' reach probabilities, in which returns are linear. Where R_s
goes to 0 for all seats, the mean of the snapshots approaches a coarse correlated equilibrium; in a zero-sum game of two
the mixture of all snapshots has Σ_s R_s as its NashConv (Zinkevich et al. 2007, theorem 2).

A policy loses most at states that it visits often and where its best action would gain much. For seat s at information
state I under the behaviour σ of all seats,

    visit(I) · regret(I) = visit(I) · max over a of A(I, a)

with visits and advantages from ``exact.turn_values``. It equals the probability of the seat's own moves there times its
counterfactual regret (ibid.), and is 0 everywhere in an equilibrium.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.sequence_form import SequenceForm
from league.theory.exact.turn_values import turn_values


def snapshot_regrets(form: SequenceForm, tables: Sequence[PolicyTable]) -> tuple[float, ...]:
    """Return R by seat [S], in the game's units a match, for tables in the order of their snapshots."""
    plans = [form.plan([table.probabilities[key] for key in form.keys]) for table in tables]
    regrets = []
    for seat in range(form.seats):
        others = np.delete(form.last, seat, axis=1)
        reaches = [plan[others].prod(axis=1) for plan in plans]
        earned = sum(
            float((form.chance * reach * plan[form.last[:, seat]]) @ form.returns[:, seat])
            for reach, plan in zip(reaches, plans, strict=True)
        )
        best, _ = form.response(seat, np.sum(reaches, axis=0))
        regrets.append((best - earned) / len(tables))
    return tuple(regrets)


def visit_regrets(form: SequenceForm, table: PolicyTable) -> NDArray[np.float64]:
    """Return visit times regret of each information state [I], in the game's units a match."""
    turns = turn_values(form, [table.probabilities[key] for key in form.keys])
    best = np.maximum.reduceat(np.nan_to_num(turns.advantages), turns.first[:-1])
    return np.asarray(turns.visits * best)
