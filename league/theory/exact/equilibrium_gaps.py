"""Exact payoffs of line-ups of tables, and the gain from leaving a joint distribution over them in the full game.

A strategy of a player (a seat) is a ``PolicyTable``, of which only that seat's rows are read. σ is a joint
distribution over line-ups, one strategy for each seat. σ is a coarse correlated equilibrium (CCE) of the full
game if no player p gains by leaving it for any other behaviour, against the others' marginal σ(a_-p), and
a correlated one (CE) if none gains by doing so after a_p was recommended to it, against σ(a_-p | a_p). The gaps
(Marris et al. 2021, arXiv 2106.09435), in the game's units a match:

    CCE gap_p = max over b of Σ_a σ(a) [u_p(b, a_-p) - u_p(a)]
    CE gap_p = Σ_{a_p} σ(a_p) max over b of Σ_{a_-p} σ(a_-p | a_p) [u_p(b, a_-p) - u_p(a)]

Neither is below 0: a player who would lose by leaving stays. ``meta_solvers.gaps`` allows deviations to strategies
in the population only. All of it is sums over the terminals z of the sequence form: the others, though correlated,
reach z with probability Σ σ(a_-p) Π_{q≠p} x_q(a_q, z), where x are their realisation plans, and backward induction
against that probability is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from league.theory.exact.exploitability import PolicyTable, exact_form, head_to_head
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import SequenceForm
from league.theory.solvers.correlated import Concept
from league.theory.solvers.empirical_game import EmpiricalGame, Joint

Tables = Sequence[Sequence[PolicyTable]]  # by player and strategy  # [P][n_p]
Reach = NDArray[np.float64]  # probability of a seat's moves on the way to each terminal, by strategy  # [n_p, Z]


def exact_game(tables_PN: Tables) -> EmpiricalGame:
    """Return the exact expected returns [P, n_1, …, n_P] of every line-up, in the game's units a match.

    Raises UsageError for a game too large to enumerate, ValueError unless each seat of one game has tables.
    """
    form = _exact_form(tables_PN)
    if isinstance(form, PositionGraph):
        sizes = [len(tables) for tables in tables_PN]
        values = np.empty((len(sizes), *sizes))
        for lineup in np.ndindex(*sizes):
            seated = [tables[strategy] for tables, strategy in zip(tables_PN, lineup, strict=True)]
            values[(slice(None), *lineup)] = head_to_head(seated)
        return EmpiricalGame(values)
    *earlier, last = seat_reaches(form, tables_PN)
    joint_reach = np.ones((1, len(form.chance)))  # [n_1 · … · n_(P-1), Z]
    for reach in earlier:
        joint_reach = (joint_reach[:, None] * reach).reshape(-1, reach.shape[1])
    by_seat = (joint_reach @ (last * (form.chance * returns)).T for returns in form.returns.T)
    return EmpiricalGame(np.stack([values.reshape([len(tables) for tables in tables_PN]) for values in by_seat]))


def cce_gap(joint: Joint, tables_PN: Tables) -> float:
    """Return the sum over players of the best behaviour's gain in the full game; 0 exactly for a CCE."""
    return float(gaps_by_player(joint, tables_PN, "cce").sum())


def ce_gap(joint: Joint, tables_PN: Tables) -> float:
    """Return the sum over players of the gain of best responses to recommendations; 0 exactly for a CE."""
    return float(gaps_by_player(joint, tables_PN, "ce").sum())


def gaps_by_player(joint: Joint, tables_PN: Tables, concept: Concept) -> NDArray[np.float64]:
    """Return the most that each player [P] gains in the full game by leaving ``joint`` [n_1, …, n_P].

    Raises UsageError for a game that is too large, or whose mixtures have no tables (``mixable``), and
    ValueError for a joint distribution that does not fit the tables.
    """
    form = sequence_form_of(tables_PN)
    reaches = seat_reaches(form, tables_PN)
    _check(joint, tables_PN)
    return np.array([_gains(form, joint, reaches, seat, concept).sum() for seat in range(form.seats)])


def gains_by_recommendation(joint: Joint, tables_PN: Tables, seat: int, concept: Concept) -> NDArray[np.float64]:
    """Return a player's gain by its best response to each recommended strategy [n_p], weighted by σ(a_p).

    For a CCE nothing is recommended, so there is one gain [1]. The sum is the player's gap. Raises as
    ``gaps_by_player``.
    """
    form = sequence_form_of(tables_PN)
    _check(joint, tables_PN)
    return _gains(form, joint, seat_reaches(form, tables_PN), seat, concept)


def opponent_reach(joint: Joint, tables_PN: Tables, seat: int, concept: Concept) -> NDArray[np.float64]:
    """Return the probability that ``seat`` gets a recommendation and the others play towards a terminal [n_p, Z].

    For a CCE nothing is recommended [1, Z]. Chance is left out. Raises as ``gaps_by_player``.
    """
    form = sequence_form_of(tables_PN)
    _check(joint, tables_PN)
    return _opponent_reach(joint, seat_reaches(form, tables_PN), seat, concept)


def best_response_table(seat: int, reach: NDArray[np.float64], form: SequenceForm) -> PolicyTable:
    """Return a best strategy of ``seat``, its rows only, against the opponents' ``reach`` of the terminals [Z].

    It is pure, and among equally good actions takes the lowest id; at information states with zero reach it is
    uniform, as in OpenSpiel.
    """
    _, best_actions = form.response(seat, reach)
    rows = {}
    for index, (key, ids) in enumerate(zip(form.keys, form.legal, strict=True)):
        if key[0] == seat:
            uniform = np.full(len(ids), 1.0 / len(ids))
            rows[key] = tuple((np.eye(len(ids))[best_actions[index]] if index in best_actions else uniform).tolist())
    return PolicyTable(form.game, rows)


def _gains(
    form: SequenceForm, joint: Joint, reaches: Sequence[Reach], seat: int, concept: Concept
) -> NDArray[np.float64]:
    """Return ``gains_by_recommendation`` from the reaches; 0 where obeying is best."""
    payoffs = form.chance * form.returns[:, seat]
    weights = _opponent_reach(joint, reaches, seat, "ce")  # [n_p, Z]
    obeyed = (weights * reaches[seat]) @ payoffs  # [n_p]
    if concept == "cce":
        weights, obeyed = weights.sum(axis=0, keepdims=True), obeyed.sum(keepdims=True)
    best = np.array([form.response(seat, reach)[0] for reach in weights])
    return np.maximum(best - obeyed, 0.0)


def _opponent_reach(joint: Joint, reaches: Sequence[Reach], seat: int, concept: Concept) -> NDArray[np.float64]:
    """Return ``opponent_reach`` from the reaches, summed over one opponent's strategies after another's."""
    opponents = [reach for player, reach in enumerate(reaches) if player != seat]
    weights = np.moveaxis(joint, seat, 0)
    if concept == "cce":
        weights = weights.sum(axis=0, keepdims=True)
    weights = weights @ opponents[-1]  # [n_p, n_q, …, Z]
    for reach in reversed(opponents[:-1]):
        weights = np.einsum("...nz,nz->...z", weights, reach)
    return weights


def seat_reaches(form: SequenceForm, tables_PN: Tables) -> list[Reach]:
    """Return ``seat_reach`` of every seat."""
    return [seat_reach(form, seat, tables) for seat, tables in enumerate(tables_PN)]


def seat_reach(form: SequenceForm, seat: int, tables: Sequence[PolicyTable]) -> Reach:
    """Return the probability of a seat's moves on the way to each terminal, by strategy [n_p, Z]."""
    keys = [key for key in form.keys if key[0] == seat]
    rows = [[p for key in keys for p in table.probabilities[key]] for table in tables]
    return form.plans(seat, np.array(rows).T)[form.last[:, seat]].T


def _exact_form(tables_PN: Tables) -> SequenceForm | PositionGraph:
    """Return the enumerated game of the tables. Raises ValueError unless each of its seats has some."""
    games = {table.game for tables in tables_PN for table in tables}
    if len(games) != 1 or not all(tables_PN):
        raise ValueError(f"expected a table or more for each seat of one game, got those of {sorted(games)}")
    form = exact_form(games.pop())
    if len(tables_PN) != form.seats:
        raise ValueError(f"{form.game} has {form.seats} seats, got the tables of {len(tables_PN)}")
    return form


def sequence_form_of(tables_PN: Tables) -> SequenceForm:
    """Return the sequence form of the tables' game. Raises UsageError for a board game."""
    form = _exact_form(tables_PN)
    if isinstance(form, PositionGraph):
        raise UsageError(
            f"The gain of deviating from a joint distribution in {form.game} is not computed: its positions are "
            "enumerated as boards, which do not show which of the mixed players made the moves before. Compare "
            "players by matches."
        )
    return form


def _check(joint: Joint, tables_PN: Tables) -> None:
    """Raise ValueError for anything but a distribution over the line-ups of the tables."""
    sizes = tuple(len(tables) for tables in tables_PN)
    if joint.shape != sizes:
        raise ValueError(f"expected a joint distribution of shape {list(sizes)}, got {list(joint.shape)}")
    if not (joint.min() >= 0.0 and abs(float(joint.sum()) - 1.0) < 1e-3):
        raise ValueError(f"expected probabilities that sum to one, got {joint.sum()} and a least of {joint.min()}")
