"""Line-ups of tables, exactly: the game among them, and what leaving a joint distribution gains in the full game.

A strategy of a player (a seat) is a ``PolicyTable``, of which only that seat's rows are read. σ is a joint
distribution over line-ups, one strategy for each seat. σ is a coarse correlated equilibrium (CCE) of the full
game if no player p gains by leaving it for any behaviour whatever, against the others' marginal σ(a_-p), and
a correlated one (CE) if none gains by that after it was told its own a_p, against σ(a_-p | a_p). The gaps are
those of Marris et al. 2021 (arXiv 2106.09435), in units of the game a match:

    CCE gap_p = max over b of Σ_a σ(a) [u_p(b, a_-p) - u_p(a)]
    CE gap_p = Σ_{a_p} σ(a_p) max over b of Σ_{a_-p} σ(a_-p | a_p) [u_p(b, a_-p) - u_p(a)]

Neither is below 0: who would lose by leaving obeys. ``meta_solvers.gaps`` asks the same of the strategies in the
population only. All of it is sums over the terminals of the sequence form: the others, though correlated, come to
terminal z with probability Σ σ(a_-p) Π_{q≠p} x_q(a_q, z), x being their realisation plans, and against that backward
induction is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from games.errors import UsageError
from league.exploitability import PolicyTable, exact_form, head_to_head
from league.meta_solvers.correlated import Concept
from league.meta_solvers.empirical import EmpiricalGame, Joint
from league.position_graph import PositionGraph
from league.sequence_form import SequenceForm

Tables = Sequence[Sequence[PolicyTable]]  # by player and strategy  # [P][n_p]
Reach = NDArray[np.float64]  # with what probability each strategy does its part of the way  # [n_p, Z]


def exact_game(tables_PN: Tables) -> EmpiricalGame:
    """Return the exact expected returns [P, n_1, …, n_P] of every line-up, in the game's units a match.

    Raises UsageError for a game too large to enumerate, ValueError for tables that are not one game's, by seat.
    """
    form = _form(tables_PN)
    if isinstance(form, PositionGraph):
        sizes = [len(tables) for tables in tables_PN]
        values = np.empty((len(sizes), *sizes))
        for lineup in np.ndindex(*sizes):
            seated = [tables[place] for tables, place in zip(tables_PN, lineup, strict=True)]
            values[(slice(None), *lineup)] = head_to_head(seated)
        return EmpiricalGame(values)
    *earlier, last = reaches_of(form, tables_PN)
    together = np.ones((1, len(form.chance)))  # [n_1 · … · n_(P-1), Z]
    for reach in earlier:
        together = (together[:, None] * reach).reshape(-1, reach.shape[1])
    by_seat = (together @ (last * (form.chance * returns)).T for returns in form.returns.T)
    return EmpiricalGame(np.stack([values.reshape([len(tables) for tables in tables_PN]) for values in by_seat]))


def cce_gap(joint: Joint, tables_PN: Tables) -> float:
    """Return the sum over players of what the best behaviour of the full game gains; 0 exactly for a CCE."""
    return float(gaps_by_player(joint, tables_PN, "cce").sum())


def ce_gap(joint: Joint, tables_PN: Tables) -> float:
    """Return the sum over players of what best answers to what they are told gain; 0 exactly for a CE."""
    return float(gaps_by_player(joint, tables_PN, "ce").sum())


def gaps_by_player(joint: Joint, tables_PN: Tables, concept: Concept) -> NDArray[np.float64]:
    """Return by player [P] the most that it gains in the full game by leaving ``joint`` [n_1, …, n_P].

    Raises UsageError for a game that is too large, or whose mixtures have no tables (``mixable``), and
    ValueError for a joint distribution that does not fit the tables.
    """
    form = enumerated(tables_PN)
    reaches = reaches_of(form, tables_PN)
    _check(joint, tables_PN)
    return np.array([_gains(form, joint, reaches, seat, concept).sum() for seat in range(form.seats)])


def gains_by_advice(joint: Joint, tables_PN: Tables, seat: int, concept: Concept) -> NDArray[np.float64]:
    """Return what a player gains by its best answer to each strategy that it may be told [n_p], weighted by σ(a_p).

    For a CCE it is told nothing, so there is one gain [1]. The sum is the player's gap. Raises as ``gaps_by_player``.
    """
    form = enumerated(tables_PN)
    _check(joint, tables_PN)
    return _gains(form, joint, reaches_of(form, tables_PN), seat, concept)


def others_reach(joint: Joint, tables_PN: Tables, seat: int, concept: Concept) -> NDArray[np.float64]:
    """Return with what probability ``seat`` is told a strategy and the others then come to each terminal [n_p, Z].

    For a CCE it is told nothing [1, Z]. Chance is left out. Raises as ``gaps_by_player``.
    """
    form = enumerated(tables_PN)
    _check(joint, tables_PN)
    return _others(joint, reaches_of(form, tables_PN), seat, concept)


def best_response_table(seat: int, others: NDArray[np.float64], form: SequenceForm) -> PolicyTable:
    """Return a best strategy of ``seat``, its own rows only, against others who reach the terminals so [Z].

    It is pure, and of equally good actions takes the one of the lowest id; only where the others never let
    it come, and nothing is to be known, it plays all alike. OpenSpiel's does the same.
    """
    _, chosen = form.response(seat, others)
    rows = {}
    for index, (key, ids) in enumerate(zip(form.keys, form.legal, strict=True)):
        if key[0] == seat:
            flat = np.full(len(ids), 1.0 / len(ids))
            rows[key] = tuple((np.eye(len(ids))[chosen[index]] if index in chosen else flat).tolist())
    return PolicyTable(form.game, rows)


def _gains(
    form: SequenceForm, joint: Joint, reaches: Sequence[Reach], seat: int, concept: Concept
) -> NDArray[np.float64]:
    """Return ``gains_by_advice`` from the realisation plans; who does best to obey gains 0."""
    payoffs = form.chance * form.returns[:, seat]
    told = _others(joint, reaches, seat, "ce")  # [n_p, Z]
    obeyed = (told * reaches[seat]) @ payoffs  # [n_p]
    if concept == "cce":
        told, obeyed = told.sum(axis=0, keepdims=True), obeyed.sum(keepdims=True)
    best = np.array([form.response(seat, others)[0] for others in told])
    return np.maximum(best - obeyed, 0.0)


def _others(joint: Joint, reaches: Sequence[Reach], seat: int, concept: Concept) -> NDArray[np.float64]:
    """Return ``others_reach`` from the realisation plans, one other player after another."""
    others = [reach for player, reach in enumerate(reaches) if player != seat]
    told = np.moveaxis(joint, seat, 0)
    if concept == "cce":
        told = told.sum(axis=0, keepdims=True)
    weights = told @ others[-1]  # [n_p, n_q, …, Z]
    for reach in reversed(others[:-1]):
        weights = np.einsum("...nz,nz->...z", weights, reach)
    return weights


def reaches_of(form: SequenceForm, tables_PN: Tables) -> list[Reach]:
    """Return for each player with what probability each of its strategies does its part to each terminal [n_p, Z]."""
    return [reach_of(form, seat, tables) for seat, tables in enumerate(tables_PN)]


def reach_of(form: SequenceForm, seat: int, tables: Sequence[PolicyTable]) -> Reach:
    """Return ``reaches_of`` of one player."""
    keys = [key for key in form.keys if key[0] == seat]
    rows = [[p for key in keys for p in table.probabilities[key]] for table in tables]
    return form.plans(seat, np.array(rows).T)[form.last[:, seat]].T


def _form(tables_PN: Tables) -> SequenceForm | PositionGraph:
    """Return the enumerated game of tables that are given for each of its seats."""
    games = {table.game for tables in tables_PN for table in tables}
    if len(games) != 1 or not all(tables_PN):
        raise ValueError(f"expected a table or more for each seat of one game, got those of {sorted(games)}")
    form = exact_form(games.pop())
    if len(tables_PN) != form.seats:
        raise ValueError(f"{form.game} has {form.seats} seats, got the tables of {len(tables_PN)}")
    return form


def enumerated(tables_PN: Tables) -> SequenceForm:
    """Return the enumerated game of some tables. Raises UsageError for a game on a board."""
    form = _form(tables_PN)
    if isinstance(form, PositionGraph):
        raise UsageError(
            f"What leaving a joint distribution gains in {form.game} is not computed: its positions are enumerated as "
            "boards, which do not tell which of the mixed players made the moves before. Compare players by matches."
        )
    return form


def _check(joint: Joint, tables_PN: Tables) -> None:
    """Raise ValueError for anything but a distribution over the line-ups of the tables."""
    sizes = tuple(len(tables) for tables in tables_PN)
    if joint.shape != sizes:
        raise ValueError(f"expected a joint distribution of shape {list(sizes)}, got {list(joint.shape)}")
    if not (joint.min() >= 0.0 and abs(float(joint.sum()) - 1.0) < 1e-3):
        raise ValueError(f"expected probabilities that sum to one, got {joint.sum()} and a least of {joint.min()}")
