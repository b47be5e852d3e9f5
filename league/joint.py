"""Joint distributions over tabulated policies: exact values, and what leaving one gains in the full game.

Player p sits in seat p and has n_p strategies, each a table; a profile picks one for every seat, and a joint
distribution σ [n_1, …, n_P] draws profiles. In the full game a player may leave σ for any policy at all:

    CCE gap of p   max over π of Σ_a σ(a) (u_p(π, a_-p) − u_p(a))
    CE gap of p    Σ over a_p of max over π of Σ_{a_-p} σ(a) (u_p(π, a_-p) − u_p(a))

as joint PSRO measures its progress (Marris et al. 2021, arXiv 2106.09435). The others are correlated, so the best
responses are to a mixture of their joint plans, which sequence form has as weights on its terminals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from games.errors import UsageError
from league.exploitability import PolicyTable, exact_form, head_to_head
from league.meta_solvers.empirical import EmpiricalGame, Joint
from league.position_graph import PositionGraph
from league.sequence_form import SequenceForm

Tables = Sequence[Sequence[PolicyTable]]  # by player and strategy  # [P][n_p]
_LETTERS = "abcdefghijklmnopqrstuvwxy"  # of the players in Einstein sums; z is the terminals


def exact_game(tables_PN: Tables) -> EmpiricalGame:
    """Return the exact expected returns [P, n_1, …, n_P] of every profile of tables, in the game's units."""
    form = exact_form(tables_PN[0][0].game)
    sizes = [len(tables) for tables in tables_PN]
    values = np.zeros([len(sizes), *sizes])
    if isinstance(form, PositionGraph):
        for place in np.ndindex(*sizes):
            profile = [tables[i] for tables, i in zip(tables_PN, place, strict=True)]
            values[(slice(None), *place)] = head_to_head(profile)
        return EmpiricalGame(values)
    reach = _reach(form, tables_PN)
    players = _LETTERS[: len(sizes)]
    formula = f"z,{','.join(f'{player}z' for player in players)}->{players}"
    for seat in range(len(sizes)):
        values[seat] = np.einsum(formula, form.chance * form.returns[:, seat], *reach, optimize=True)
    return EmpiricalGame(values)


def cce_gaps(joint: Joint, tables_PN: Tables) -> NDArray[np.float64]:
    """Return by player [P] what the best policy gains over following ``joint`` [n_1, …, n_P], fixed beforehand."""
    return _gaps(joint, tables_PN, told=False)


def ce_gaps(joint: Joint, tables_PN: Tables) -> NDArray[np.float64]:
    """Return by player [P] what the best answers to its recommendations gain over following ``joint``."""
    return _gaps(joint, tables_PN, told=True)


def cce_gap(joint: Joint, tables_PN: Tables) -> float:
    """Return the sum of ``cce_gaps``: 0 exactly where ``joint`` is a coarse correlated equilibrium of the full game."""
    return float(cce_gaps(joint, tables_PN).sum())


def ce_gap(joint: Joint, tables_PN: Tables) -> float:
    """Return the sum of ``ce_gaps``: 0 exactly where ``joint`` is a correlated equilibrium of the full game."""
    return float(ce_gaps(joint, tables_PN).sum())


def others_reach(joint: Joint, tables_PN: Tables, seat: int) -> NDArray[np.float64]:
    """Return Σ over a_-p of σ(a) Π_{q≠p} x_q(z): how the others let play come to each terminal [n_p, Z].

    A row belongs to a strategy that ``seat`` is told to play, and is weighed by its probability.
    """
    form = _sequences(tables_PN)
    reach = _reach(form, tables_PN)
    players = _LETTERS[: len(reach)]
    others = [place for place in range(len(reach)) if place != seat]
    formula = f"{players},{','.join(f'{players[place]}z' for place in others)}->{players[seat]}z"
    return np.asarray(np.einsum(formula, joint, *[reach[place] for place in others], optimize=True))


def _gaps(joint: Joint, tables_PN: Tables, told: bool) -> NDArray[np.float64]:
    form = _sequences(tables_PN)
    values = exact_game(tables_PN).values
    gaps = []
    for seat in range(len(tables_PN)):
        reach = others_reach(joint, tables_PN, seat)
        rows = reach[reach.any(axis=1)] if told else reach.sum(axis=0, keepdims=True)
        best = sum(form.best_response_to(seat, row) for row in rows)
        gaps.append(best - float((joint * values[seat]).sum()))
    return np.array(gaps)


def _reach(form: SequenceForm, tables_PN: Tables) -> list[NDArray[np.float64]]:
    """Return by player how each of its strategies lets play come to each terminal [n_p, Z]."""
    plans = [
        np.stack([form.plan([table.probabilities[key] for key in form.keys]) for table in tables])
        for tables in tables_PN
    ]
    return [plan[:, form.last[:, seat]] for seat, plan in enumerate(plans)]


def _sequences(tables_PN: Tables) -> SequenceForm:
    form = exact_form(tables_PN[0][0].game)
    if isinstance(form, PositionGraph):
        raise UsageError(
            f"{form.game} is kept by positions, not by the ways to them, so mixtures of its policies have no exact "
            "best response. Compare them by matches."
        )
    return form
