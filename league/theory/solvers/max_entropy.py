"""The distribution of greatest entropy, or of greatest Gini impurity, under linear inequalities.

A game may have many equilibria; the one of greatest entropy (or Gini impurity) is unique, uses every strategy that
it can, and changes continuously while the set of equilibria does. Both programs are solved by Clarabel (an
interior-point solver, Apache-2.0): Gini impurity 1 - Σ x² as a quadratic program (least squares), entropy with one
exponential cone a variable.

An interior-point solver needs an interior, and a set of equilibria often has none: strategies that no
equilibrium uses are fixed at 0, constraints at their bounds. So these are identified first, by one linear program.
Where payoffs differ by less than the linear program's tolerance (nearly equal players), it may report constraints at
their bounds that cannot all hold there. Then bounds are widened, by the first of ``WIDENED`` that gives an answer: near
an equilibrium the widened set has an interior, so no constraint is at its bound everywhere.
"""

from __future__ import annotations

import clarabel  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from league.theory.solvers.empirical_game import Criterion, largest

TOLERANCE = 1e-7  # of a constraint, as a share of the largest coefficient
SMALLEST = 1e-6  # an entry that no allowed distribution raises above this counts as 0
ITERATIONS = 100  # of the simplex method, for each entry and constraint: it takes two, or with bad luck cycles
WIDENED = (0.0, 1e-6, 1e-5)  # of bounds, tried in turn until there is an answer, as TOLERANCE


def max_entropy(rows: NDArray[np.float64], bounds: NDArray[np.float64], criterion: Criterion) -> NDArray[np.float64]:
    """Return the distribution x [N] of greatest ``criterion`` with ``rows`` [K, N] @ x <= ``bounds`` [K].

    The criterion is within 1e-7 of its maximum. No constraint is broken by more than a ten-millionth of the largest
    coefficient, or a hundred-thousandth where bounds had to be widened. Raises ArithmeticError when no distribution
    meets the constraints, or the solver does not converge.
    """
    scale = largest(rows)
    reasons = []
    for widened in WIDENED:
        try:
            return _within(rows / scale, bounds / scale + widened, criterion)
        except ArithmeticError as error:
            reasons.append(str(error))
    raise ArithmeticError(reasons[0])


def _within(rows: NDArray[np.float64], bounds: NDArray[np.float64], criterion: Criterion) -> NDArray[np.float64]:
    """Return ``max_entropy`` for coefficients up to 1, with the constraints as they are."""
    used, slack = _face(rows, bounds)
    inside, size = rows[:, used], int(used.sum())
    tight = ~slack & inside.any(axis=1)
    linear = np.vstack([np.ones((1, size)), inside[tight], inside[slack], -np.eye(size)])
    limits = np.concatenate([[1.0], bounds[tight], bounds[slack], np.zeros(size)])
    cones = [clarabel.ZeroConeT(1 + int(tight.sum())), clarabel.NonnegativeConeT(int(slack.sum()) + size)]
    solve = _least_squares if criterion == "gini" else _greatest_entropy
    answer, status = solve(sparse.csc_matrix(linear), limits, cones)
    distribution = np.zeros(len(used))
    distribution[used] = np.maximum(answer, 0.0)
    with np.errstate(invalid="ignore"):  # of a solver that reports failure
        distribution /= distribution.sum()
    excess = float((rows @ distribution - bounds).max(initial=0.0))
    if status not in ("Solved", "AlmostSolved") or not excess <= TOLERANCE:
        raise ArithmeticError(
            f"no distribution of greatest {criterion} over {size} profiles under {len(rows)} constraints was found: "
            f"the solver ended with {status}, and its answer breaks a constraint by {excess:g} (of a coefficient of 1)"
        )
    return distribution


def _face(rows: NDArray[np.float64], bounds: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which entries [N] some allowed distribution uses, and which constraints [K] some leaves slack.

    Freund, Roundy and Todd (1985), "Identifying the set of always-active constraints in a system of
    linear inequalities by a single linear program": in multiples τ of a distribution, x = τ p with
    τ >= 1, everything that can be positive can be 1, so Σ t + Σ u is maximised under x >= t,
    rows x + u <= τ bounds and 0 <= t, u <= 1. Raises ArithmeticError where there is no distribution.
    """
    constraints, size = rows.shape
    marks = size + constraints
    inequalities = np.block(
        [
            [-np.eye(size), np.zeros((size, 1)), np.eye(size), np.zeros((size, constraints))],
            [rows, -bounds[:, None], np.zeros((constraints, size)), np.eye(constraints)],
        ]
    )
    solution = linprog(
        c=np.concatenate([np.zeros(size + 1), -np.ones(marks)]),  # of (x, τ, t, u)
        A_ub=sparse.csc_matrix(inequalities),
        b_ub=np.zeros(marks),
        A_eq=np.concatenate([np.ones(size), [-1.0], np.zeros(marks)])[None],
        b_eq=[0.0],
        bounds=[(0.0, None)] * size + [(1.0, 1.0 / SMALLEST)] + [(0.0, 1.0)] * marks,
        method="highs-ds",
        options={"maxiter": ITERATIONS * marks},
    )
    if not solution.success:
        raise ArithmeticError(
            f"no distribution over {size} profiles meets {constraints} constraints: {solution.message}"
        )
    positive = solution.x[size + 1 :] > 0.5
    return positive[:size], positive[size:]


def _least_squares(
    linear: sparse.csc_matrix, limits: NDArray[np.float64], cones: list[object]
) -> tuple[NDArray[np.float64], str]:
    """Minimise Σ x² / 2."""
    size = linear.shape[1]
    return _solve(sparse.identity(size), np.zeros(size), linear, limits, cones)


def _greatest_entropy(
    linear: sparse.csc_matrix, limits: NDArray[np.float64], cones: list[object]
) -> tuple[NDArray[np.float64], str]:
    """Maximise Σ t, where x exp(t / x) <= 1, that is t <= -x ln x."""
    size = linear.shape[1]
    variables = np.arange(size)
    # Three rows a cone, in Clarabel's order (t, x, 1), each the slack of 0 - (-t), 0 - (-x) and 1 - 0.
    entries = (np.concatenate([3 * variables, 3 * variables + 1]), np.concatenate([size + variables, variables]))
    exponential = sparse.coo_matrix((-np.ones(2 * size), entries), shape=(3 * size, 2 * size))
    padding = sparse.csc_matrix((linear.shape[0], size))
    answer, status = _solve(
        sparse.csc_matrix((2 * size, 2 * size)),
        np.concatenate([np.zeros(size), -np.ones(size)]),
        sparse.vstack([sparse.hstack([linear, padding]), exponential]),
        np.concatenate([limits, np.tile([0.0, 0.0, 1.0], size)]),
        [*cones, *[clarabel.ExponentialConeT()] * size],
    )
    return answer[:size], status


def _solve(
    quadratic: sparse.spmatrix,
    cost: NDArray[np.float64],
    constraints: sparse.spmatrix,
    limits: NDArray[np.float64],
    cones: list[object],
) -> tuple[NDArray[np.float64], str]:
    """Minimise y' quadratic y / 2 + cost' y with limits - constraints y in the cones; return y and the status."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 1e-7
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(quadratic), cost, sparse.csc_matrix(constraints), limits, cones, settings
    )
    solution = solver.solve()
    return np.array(solution.x), str(solution.status)
