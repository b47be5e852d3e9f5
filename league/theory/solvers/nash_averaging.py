"""Nash averaging: ratings that copies of a player cannot move.

"Re-evaluating evaluation" (Balduzzi et al. 2018, arXiv 1806.02643). A is the antisymmetric matrix of
a population, p* its Nash equilibrium of greatest entropy; a player's rating is (A p*), its mean payoff
against that equilibrium, zero for every player in it. Elo averages over the opponents that happen to be present
and cannot distinguish a cycle from equally strong players; Nash averaging can.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.theory.solvers.empirical_game import ROUNDING, Matrix, Mixture, antisymmetric, largest


class NashAverage(NamedTuple):
    """A population's equilibrium of greatest entropy, and each player's mean payoff against it."""

    mixture: Mixture
    ratings: NDArray[np.float64]  # at most zero, in the units of the payoffs  # [N]


def nash_average(payoffs: Matrix) -> NashAverage:
    """Return the weights and ratings of a population; pairs that never met count as tied.

    Players with equal payoffs against everybody count as one player, whose mass they share. Otherwise copies
    would shift the equilibrium of greatest entropy: of two tied players each has 1/2, but with a copy of
    the first each of the three has 1/3, which is 2/3 for the first.
    """
    from league.theory.solvers.max_entropy import max_entropy  # takes a third of a second to import

    game = antisymmetric(payoffs)
    firsts, originals = distinct_players(game)
    core = game[np.ix_(firsts, firsts)]
    # The value of a symmetric zero-sum game is 0, so p is an equilibrium if and only if nobody gains against it.
    masses = max_entropy(core, np.zeros(len(core)), "entropy")
    mixture = (masses / np.bincount(originals))[originals]
    return NashAverage(mixture, game @ mixture)


def distinct_players(payoffs: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one row of each different player [K], and which of those each player equals up to rounding [N].

    ``payoffs`` [N, M] are the rows' against some or all players.
    """
    rounded = np.round(payoffs / (ROUNDING * largest(payoffs)))
    _, firsts, originals = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return firsts, originals.ravel()


def nash_averaging(payoffs: Matrix) -> Mixture:
    """Return the equilibrium of greatest entropy [N]."""
    return nash_average(payoffs).mixture
