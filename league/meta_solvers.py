"""Payoffs among the snapshots of a population -> the mixture that stands for the population.

Pure functions of an empirical payoff matrix [N, N] (row's mean return or score against column, NaN
where the pair never met), snapshots oldest first. Each returns N probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Payoffs = NDArray[np.float64]  # [N, N]
Mixture = NDArray[np.float64]  # [N], sums to one


def uniform(payoffs: Payoffs) -> Mixture:
    """Return 1/N each: fictitious play's average (Brown 1951)."""
    return np.full(len(payoffs), 1.0 / len(payoffs))


def linear(payoffs: Payoffs) -> Mixture:
    """Return weights in proportion to 1, 2, … N, the newest largest.

    CFR+'s linear averaging (Tammelin 2014, arXiv 1407.5042): what was played early, and badly,
    fades, while the average still damps the cycles of the newest.
    """
    ages = np.arange(1.0, len(payoffs) + 1.0)
    return np.asarray(ages / ages.sum())


def nash(payoffs: Payoffs) -> Mixture:
    """Return a maximin mixture of the symmetric zero-sum meta-game (Lanctot et al. 2017, arXiv 1711.00832).

    The matrix is made antisymmetric first, (P - P') / 2, so constants cancel and scores serve as well
    as returns; pairs that never met count as 0. Where several mixtures are optimal, it is the vertex
    that the simplex method finds.
    """
    from scipy.optimize import linprog  # takes a third of a second to import

    game = antisymmetric(payoffs)
    size = len(game)
    # Maximise v subject to x' game >= v in every column, sum x = 1, x >= 0.
    solution = linprog(
        c=np.append(np.zeros(size), -1.0),
        A_ub=np.hstack([-game.T, np.ones((size, 1))]),
        b_ub=np.zeros(size),
        A_eq=np.append(np.ones(size), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * size + [(None, None)],
        method="highs-ds",
    )
    if not solution.success:
        raise ArithmeticError(f"the Nash mixture of a {size} x {size} payoff matrix was not found: {solution.message}")
    mixture = np.maximum(solution.x[:size], 0.0)
    return np.asarray(mixture / mixture.sum())


def antisymmetric(payoffs: Payoffs) -> Payoffs:
    """Return (P - P') / 2 [N, N], zero on the diagonal and for pairs of which one side is unknown."""
    return np.nan_to_num((payoffs - payoffs.T) / 2.0, nan=0.0)


META_SOLVERS: dict[str, Callable[[Payoffs], Mixture]] = {"uniform": uniform, "linear": linear, "nash": nash}
