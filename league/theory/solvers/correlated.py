"""Correlated equilibria of n players with general sums: the joint distributions that JPSRO trains against.

A mediator draws a profile from σ and recommends to each player its strategy in it. σ is a correlated equilibrium (CE)
if nobody gains by answering a recommendation with another strategy, and a coarse one (CCE) if nobody
gains by a strategy fixed before the recommendation (Aumann 1974; Moulin and Vial 1978). Both sets are
polytopes; the point selected has maximum Gini impurity (MGCE, MGCCE: Marris et al. 2021, arXiv
2106.09435) or maximum entropy (MECE, MECCE: Ortiz, Schapire and Kakade 2007).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from league.theory.solvers.empirical_game import Criterion, EmpiricalGame, Joint, Missing

Concept = Literal["ce", "cce"]


def correlated_equilibrium(
    game: EmpiricalGame, concept: Concept, criterion: Criterion, slack: float = 0.0, missing: Missing = "refuse"
) -> Joint:
    """Return the joint distribution [n_1, …, n_P] that maximises ``criterion`` among those with gains up to ``slack``.

    ``slack``, in the game's units a match, is what a deviation may gain: with measured payoffs a deviation
    that gains less than their errors is no reason to give up a more mixed distribution. For a CE it bounds
    each pair (recommended, played) separately. Raises ArithmeticError when the solver fails.
    """
    from league.theory.solvers.max_entropy import max_entropy  # takes a third of a second to import

    rows = deviation_gains(game.filled(missing), concept)
    return max_entropy(rows, np.full(len(rows), slack), criterion).reshape(game.sizes)


def mgce(game: EmpiricalGame) -> Joint:
    """Return the correlated equilibrium of maximum Gini impurity [n_1, …, n_P]."""
    return correlated_equilibrium(game, "ce", "gini")


def mgcce(game: EmpiricalGame) -> Joint:
    """Return the coarse correlated equilibrium of maximum Gini impurity [n_1, …, n_P]."""
    return correlated_equilibrium(game, "cce", "gini")


def mece(game: EmpiricalGame) -> Joint:
    """Return the correlated equilibrium of maximum entropy [n_1, …, n_P]."""
    return correlated_equilibrium(game, "ce", "entropy")


def mecce(game: EmpiricalGame) -> Joint:
    """Return the coarse correlated equilibrium of maximum entropy [n_1, …, n_P]."""
    return correlated_equilibrium(game, "cce", "entropy")


def gaps(game: EmpiricalGame, joint: Joint, concept: Concept, missing: Missing = "refuse") -> NDArray[np.float64]:
    """Return the most that each player [P] gains by leaving ``joint``, in the game's units; 0 at an equilibrium.

    For a CCE this is the gain of the best fixed strategy. For a CE each recommendation has its own best
    response, and the gains add up, so the gap is the gain of the best swap of strategies (never less than the CCE's).
    """
    rows = deviation_gains(game.filled(missing), concept) @ joint.ravel()
    gaps_P, first = [], 0
    for size in game.sizes:
        shape = (size, size) if concept == "ce" else (1, size)
        gains = rows[first : first + shape[0] * size].reshape(shape)  # [recommended, played]
        gaps_P.append(max(float(gains.max(axis=1).sum()), 0.0))
        first += gains.size
    return np.array(gaps_P)


def deviation_gains(payoffs: NDArray[np.float64], concept: Concept) -> NDArray[np.float64]:
    """Return the matrix [K, n_1 … n_P] that maps a joint distribution to the gain of each deviation.

    Rows are ordered by player, then for a CE by the recommended strategy, then by the strategy played instead.
    """
    rows = []
    for player, returns in enumerate(payoffs):
        size = returns.shape[player]
        for recommended in range(size) if concept == "ce" else [None]:
            for played in range(size):
                gain = np.take(returns, [played], axis=player) - returns
                if recommended is not None:
                    obeyed = np.arange(size) == recommended
                    gain = gain * obeyed.reshape([size if axis == player else 1 for axis in range(returns.ndim)])
                rows.append(gain.ravel())
    return np.array(rows)
