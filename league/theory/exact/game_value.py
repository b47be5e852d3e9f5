"""The value of a two-seat zero-sum game: backward induction over a board game's positions, otherwise a linear program.

The linear program also gives an equilibrium.

Koller, Megiddo and von Stengel 1996, "Efficient computation of equilibria for extensive two-person
games": with realisation plans x and y, payoff matrix A (first seat's return, chance included) and flow
constraints E x = e, F y = f, the value is max over x of min over y of x'A y, by duality
max f'q subject to F'q ≤ A'x, E x = e, x ≥ 0. The multipliers of F'q ≤ A'x are the second seat's plan y.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, hstack

from games.common.errors import UsageError
from games.spec import GameSpec, Utility
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import SequenceForm, sequence_form
from league.theory.exact.states import Key

SEQUENCE_LIMIT = 5_000  # of both seats; leduc_poker has about 2,500 and takes a second
PLAYED_LIMIT = 20_000  # where an equilibrium is to be played, which is worth more time: goofspiel of 4 cards has 7,474
_UNREACHED = 1e-12  # probability of a seat's own moves; less is rounding


def game_value(spec: GameSpec) -> float | None:
    """Return the first seat's expected return under optimal play, in the game's units per match.

    None for a game that is not two-seat zero-sum, or too large for the program.
    """
    form = _solvable(spec)
    if form is None:
        return None
    return form.value() if isinstance(form, PositionGraph) else float(-_solution(spec.name).fun)


def nash_equilibrium(spec: GameSpec) -> PolicyTable | None:
    """Return one of a game's equilibria, of which there may be many; uniform where a seat never gets by its own moves.

    None as ``game_value``, and for board games.
    """
    reached = reached_equilibrium(spec, SEQUENCE_LIMIT)
    if reached is None:
        return None
    form = sequence_form(spec.name)
    rows = {
        key: tuple(reached[key].values()) if key in reached else (1.0 / len(ids),) * len(ids)
        for key, ids in zip(form.keys, form.legal, strict=True)
    }
    return PolicyTable(spec.name, rows)


def reached_equilibrium(spec: GameSpec, limit: int = PLAYED_LIMIT) -> dict[Key, dict[int, float]] | None:
    """Return one of a game's equilibria, for the information states that a seat reaches by its own moves.

    Probabilities are by action id. None as ``nash_equilibrium``, but with another ``limit`` on sequences.
    """
    form = _solvable(spec, limit)
    if form is None or isinstance(form, PositionGraph):
        return None
    rows = _reached_rows(form, _solution(spec.name))
    return {form.keys[index]: dict(zip(form.legal[index], row, strict=True)) for index, row in rows.items()}


def solved(form: SequenceForm) -> tuple[float, list[tuple[float, ...]]]:
    """Return the value of a two-seat zero-sum sequence form to its first seat, and one of its equilibria [I][actions].

    Where a seat never gets by its own moves the equilibrium is uniform. Raises ArithmeticError when the solver fails.
    """
    solution = _solve(form)
    rows = _reached_rows(form, solution)
    behaviour = [rows.get(index, (1.0 / len(ids),) * len(ids)) for index, ids in enumerate(form.legal)]
    return float(-solution.fun), behaviour


def _reached_rows(form: SequenceForm, solution: Any) -> dict[int, tuple[float, ...]]:
    """Return the distributions of the information states, by index, that a seat gets to by its own moves."""
    plan = np.maximum(solution.x[: form.sequences], 0.0) + np.maximum(-solution.ineqlin.marginals, 0.0)
    rows = {}
    for index, (first, ids) in enumerate(zip(form.first, form.legal, strict=True)):
        weights = plan[first : first + len(ids)]
        total = float(weights.sum())
        if total > _UNREACHED:
            rows[index] = tuple((weights / total).tolist())
    return rows


def _solvable(spec: GameSpec, limit: int = SEQUENCE_LIMIT) -> SequenceForm | PositionGraph | None:
    """Return the enumerated game where its value can be computed, else None."""
    if spec.seats != 2 or spec.utility is not Utility.ZERO_SUM:
        return None
    try:
        form = exact_form(spec.name)
    except UsageError:  # too large, or not enumerable
        return None
    return form if isinstance(form, PositionGraph) or form.sequences <= limit else None


@lru_cache(maxsize=8)
def _solution(game: str) -> Any:
    """Return SciPy's solution of a game's linear program. Raises ArithmeticError when the solver fails."""
    return _solve(sequence_form(game))


def _solve(form: SequenceForm) -> Any:
    """Return SciPy's solution of the linear program. Raises ArithmeticError when the solver fails."""
    payoff = coo_array(
        (form.chance * form.returns[:, 0], (form.last[:, 0], form.last[:, 1])), shape=(form.sequences, form.sequences)
    )
    flows = [_flow(form, seat) for seat in (0, 1)]
    x_size, q_size = form.sequences, flows[1].shape[0]
    flow_totals = np.zeros(flows[0].shape[0])  # e
    flow_totals[0] = 1.0
    # Variables: x, one for each sequence (the other seat's stay 0), then q, one for each flow of the second seat.
    objective = np.zeros(x_size + q_size)
    objective[x_size] = -1.0
    solution = linprog(
        objective,
        A_ub=hstack([-payoff.T, flows[1].T]),
        b_ub=np.zeros(form.sequences),
        A_eq=hstack([flows[0], coo_array((flows[0].shape[0], q_size))]),
        b_eq=flow_totals,
        bounds=[(0.0, None)] * x_size + [(None, None)] * q_size,
        method="highs",
    )
    if not solution.success:
        raise ArithmeticError(f"the value of {form.game} was not found: {solution.message}")
    return solution


def _flow(form: SequenceForm, seat: int) -> coo_array:
    """Return a seat's flow constraints [1 + information states, sequences]; the first is its empty sequence's."""
    rows, columns, values = [0], [seat], [1.0]
    row = 0
    for key, parent, first, legal in zip(form.keys, form.parent, form.first, form.legal, strict=True):
        if key[0] == seat:
            row += 1
            rows += [row] * (1 + len(legal))
            columns += [parent, *range(first, first + len(legal))]
            values += [-1.0] + [1.0] * len(legal)
    return coo_array((values, (rows, columns)), shape=(row + 1, form.sequences))
