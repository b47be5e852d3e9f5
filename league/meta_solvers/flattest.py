"""The flattest distribution that linear inequalities allow: of least squares or of greatest entropy.

A game may have many equilibria; the flattest one is unique, uses every strategy that it can, and
changes continuously while the set of equilibria does. Both programs are solved by Clarabel (an
interior-point solver, Apache-2.0): least squares (maximum Gini impurity 1 - Σ x²) as a quadratic
program, entropy with one exponential cone a variable.
"""

from __future__ import annotations

import clarabel  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from league.meta_solvers.empirical import Flatness

TOLERANCE = 1e-6  # of a constraint, as a share of the largest coefficient


def flattest(rows: NDArray[np.float64], bounds: NDArray[np.float64], flatness: Flatness) -> NDArray[np.float64]:
    """Return the distribution x [N] of greatest ``flatness`` with ``rows`` [K, N] @ x <= ``bounds`` [K].

    Raises ArithmeticError when there is none, or when the solver's answer breaks a constraint by more
    than a millionth of the largest coefficient.
    """
    size = rows.shape[1]
    scale = max(float(np.abs(rows).max(initial=0.0)), 1e-300)
    rows, bounds = rows / scale, bounds / scale
    linear = sparse.vstack([np.ones((1, size)), rows, -sparse.identity(size)])
    limits = np.concatenate([[1.0], bounds, np.zeros(size)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(rows) + size)]
    solve = _least_squares if flatness == "gini" else _greatest_entropy
    distribution, status = solve(linear, limits, cones, size)
    distribution = np.maximum(distribution, 0.0)
    distribution = distribution / distribution.sum()
    excess = float((rows @ distribution - bounds).max(initial=0.0))
    if not excess <= TOLERANCE:
        raise ArithmeticError(
            f"no distribution over {size} profiles was found that meets {len(rows)} constraints: the solver ended "
            f"with {status}, and its answer breaks one by {excess * scale:g}"
        )
    return np.asarray(distribution)


def _least_squares(
    linear: sparse.spmatrix, limits: NDArray[np.float64], cones: list[object], size: int
) -> tuple[NDArray[np.float64], str]:
    """Minimise Σ x² / 2."""
    return _solve(sparse.identity(size), np.zeros(size), linear, limits, cones)


def _greatest_entropy(
    linear: sparse.spmatrix, limits: NDArray[np.float64], cones: list[object], size: int
) -> tuple[NDArray[np.float64], str]:
    """Maximise Σ t, where x exp(t / x) <= 1, that is t <= -x ln x."""
    variables = np.arange(size)
    # Three rows a cone, in Clarabel's order (t, x, 1), each the slack of 0 - (-t), 0 - (-x) and 1 - 0.
    entries = (np.concatenate([3 * variables, 3 * variables + 1]), np.concatenate([size + variables, variables]))
    exponential = sparse.coo_matrix((-np.ones(2 * size), entries), shape=(3 * size, 2 * size))
    slack = sparse.csc_matrix((linear.shape[0], size))
    answer, status = _solve(
        sparse.csc_matrix((2 * size, 2 * size)),
        np.concatenate([np.zeros(size), -np.ones(size)]),
        sparse.vstack([sparse.hstack([linear, slack]), exponential]),
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
    """Minimise y' quadratic y / 2 + cost' y with limits - constraints y in the cones; return y and how it ended."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(quadratic), cost, sparse.csc_matrix(constraints), limits, cones, settings
    )
    solution = solver.solve()
    return np.array(solution.x), str(solution.status)
