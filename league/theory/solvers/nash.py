"""Nash equilibria of two-player zero-sum meta-games, by linear programming."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from league.theory.solvers.empirical_game import (
    ROUNDING,
    EmpiricalGame,
    Matrix,
    Missing,
    Mixture,
    antisymmetric,
    largest,
)

METHODS = ("highs-ds", "highs-ipm")  # the simplex method gives a vertex; where it fails, an interior-point method
_ZERO = 1e-11  # of ``symmetric_vertex``, as a share of the largest payoff
ITERATIONS = 100  # for each strategy; it takes about one, or with bad luck cycles


def nash(payoffs: Matrix) -> Mixture:
    """Return a maximin mixture of the symmetric zero-sum meta-game (Lanctot et al. 2017, arXiv 1711.00832).

    The matrix is made antisymmetric first, (P - P') / 2, so constants cancel and scores serve as well
    as returns; pairs that never met count as 0. Where several mixtures are optimal, it is the vertex
    that the simplex method finds; ``nash_averaging`` gives the one of greatest entropy.
    """
    return maximin(antisymmetric(payoffs))[0]


def zero_sum_nash(game: EmpiricalGame, missing: Missing = "refuse") -> tuple[Mixture, Mixture]:
    """Return an equilibrium of a two-player game whose payoffs sum to a constant: each player's maximin mixture.

    Raises UsageError for more players, and when the payoffs' sum differs among profiles by more than
    a hundred-thousandth of their range, and more than rounding.
    """
    if len(game.sizes) != 2:
        raise UsageError(
            f"A linear program finds equilibria of two players, and this game has {len(game.sizes)}. "
            "Use a (coarse) correlated equilibrium, projected replicator dynamics or α-rank."
        )
    row, column = game.filled(missing)
    rounding = ROUNDING * max(largest(row), largest(column))
    if np.ptp(row + column) > max(1e-5 * max(np.ptp(row), np.ptp(column)), rounding):
        raise UsageError(
            f"The payoffs' sum runs from {(row + column).min():g} to {(row + column).max():g}, so the game is not "
            "zero-sum. Use a (coarse) correlated equilibrium, projected replicator dynamics or α-rank."
        )
    return maximin(row)[0], maximin(column.T)[0]


def symmetric_vertex(game: Matrix) -> Mixture | None:
    """Return an equilibrium [N] of an antisymmetric game [N, N] that is a vertex; None where rounding keeps it away.

    The simplex method on a dense tableau (Dantzig 1963, chapter 13): of y >= 0 with (game + 2) y <= 1, the one of
    greatest sum, scaled to 1. Ties are broken by lexicographic order, which does not cycle.
    ``maximin`` solves larger and harder programs, but the solver alone takes a third of a second to import.
    """
    size = len(game)
    tableau = np.hstack([game / largest(game) + 2.0, np.eye(size), np.ones((size, 1))])
    costs = np.concatenate([np.ones(size), np.zeros(size + 1)])
    basis = np.arange(size, 2 * size)
    for _ in range(ITERATIONS * size):
        column = int(costs[:-1].argmax())
        if costs[column] <= _ZERO:
            break
        rows = np.flatnonzero(tableau[:, column] > _ZERO)
        ratios = tableau[rows, -1] / tableau[rows, column]
        rows = rows[ratios <= ratios.min() + _ZERO]
        row = rows[np.lexsort((tableau[rows, size:-1] / tableau[rows, column, None]).T[::-1])[0]]
        tableau[row] /= tableau[row, column]
        entering = tableau[:, column].copy()
        entering[row] = 0.0
        tableau -= np.outer(entering, tableau[row])
        costs -= costs[column] * tableau[row]
        basis[row] = column
    mixture = np.zeros(size)
    chosen = basis < size
    mixture[basis[chosen]] = np.maximum(tableau[chosen, -1], 0.0)
    mixture /= mixture.sum()
    return mixture if (game @ mixture).max() <= _ZERO * largest(game) else None


def maximin(matrix: NDArray[np.float64]) -> tuple[Mixture, float]:
    """Return the row mixture [N] whose worst column [M] is best, and that column's payoff: the game's value.

    The solver's tolerances are absolute, so payoffs are scaled to lie between -1 and 1; the mixture stays the same.
    Raises ArithmeticError when the solver fails.
    """
    from scipy.optimize import linprog  # takes a third of a second to import

    rows, columns = matrix.shape
    centred = matrix - (matrix.max() / 2.0 + matrix.min() / 2.0)
    scaled = centred / largest(centred)
    for method in METHODS:
        # Maximise v subject to x' scaled >= v in every column, sum x = 1, x >= 0.
        solution = linprog(
            c=np.append(np.zeros(rows), -1.0),
            A_ub=np.hstack([-scaled.T, np.ones((columns, 1))]),
            b_ub=np.zeros(columns),
            A_eq=np.append(np.ones(rows), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0.0, None)] * rows + [(None, None)],
            method=method,
            options={"maxiter": ITERATIONS * (rows + columns)},
        )
        if solution.success:
            break
    else:
        raise ArithmeticError(
            f"the Nash mixture of a {rows} x {columns} payoff matrix was not found: {solution.message}"
        )
    mixture = np.maximum(solution.x[:rows], 0.0)
    mixture /= mixture.sum()
    return np.asarray(mixture), float((mixture @ matrix).min())
