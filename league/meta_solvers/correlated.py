"""Correlated equilibria of n players with general sums: the joint distributions that JPSRO trains against.

A mediator draws a profile from σ and tells each player its part. σ is a correlated equilibrium (CE)
if nobody gains by answering a recommendation with another strategy, and a coarse one (CCE) if nobody
gains by a strategy fixed before it hears the recommendation (Aumann 1974; Moulin and Vial 1978). Both
sets are polytopes; of their points we take the flattest: of maximum Gini impurity (MGCE, MGCCE: Marris
et al. 2021, arXiv 2106.09435) or of maximum entropy (MECE, MECCE: Ortiz, Schapire and Kakade 2007).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from league.meta_solvers.empirical import EmpiricalGame, Flatness, Joint, Missing

Concept = Literal["ce", "cce"]


def correlated_equilibrium(
    game: EmpiricalGame, concept: Concept, flatness: Flatness, slack: float = 0.0, missing: Missing = "refuse"
) -> Joint:
    """Return the flattest joint distribution [n_1, …, n_P] from which nobody gains more than ``slack`` a constraint.

    ``slack``, in the game's units a match, is what a deviation may gain: with measured payoffs a
    deviation that gains less than their errors is no reason to leave a flatter distribution. For a
    CE it bounds each pair (recommended, played) alone. Raises ArithmeticError when the solver fails.
    """
    from league.meta_solvers.flattest import flattest  # takes a third of a second to import

    rows = deviation_gains(game.filled(missing), concept)
    return flattest(rows, np.full(len(rows), slack), flatness).reshape(game.sizes)


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
    """Return by player [P] the most that it gains by leaving ``joint``, in the game's units; 0 at an equilibrium.

    For a CCE the best fixed strategy counts. For a CE each recommendation has its own best answer, and
    the gains add up, so the gap is what the best swap of strategies gains (never less than the CCE's).
    """
    rows = deviation_gains(game.filled(missing), concept) @ joint.ravel()
    found, first = [], 0
    for size in game.sizes:
        shape = (size, size) if concept == "ce" else (1, size)
        own = rows[first : first + shape[0] * size].reshape(shape)
        found.append(max(float(own.max(axis=1).sum()), 0.0))
        first += own.size
    return np.array(found)


def deviation_gains(payoffs: NDArray[np.float64], concept: Concept) -> NDArray[np.float64]:
    """Return the matrix [K, n_1 … n_P] that maps a joint distribution to what each deviation gains.

    Rows go by player, then for a CE by the recommended strategy, then by the strategy played instead.
    """
    rows = []
    for player, own in enumerate(payoffs):
        size = own.shape[player]
        for recommended in range(size) if concept == "ce" else [None]:
            for played in range(size):
                gain = np.take(own, [played], axis=player) - own
                if recommended is not None:
                    told = np.arange(size) == recommended
                    gain = gain * told.reshape([size if axis == player else 1 for axis in range(own.ndim)])
                rows.append(gain.ravel())
    return np.array(rows)
