"""Equilibria of large populations: of a few players first, to whom those are added who would beat their mixture.

The double oracle algorithm (McMahan, Gordon and Blum 2003) in a symmetric zero-sum meta-game, where both sides
are one: solve the game among the players of a small set, add the best responses to its equilibrium, and stop when
nobody gains against it. It is then an equilibrium of all. The sets stay small where few players are strong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.meta_solvers.empirical import Matrix, Mixture, antisymmetric
from league.meta_solvers.nash import maximin
from league.meta_solvers.nash_averaging import NashAverage

ADDED = 16  # best responses at once: linear programs cost more than a few players too many
TOLERANCE = 1e-9  # of a gain, as a share of the largest payoff
_FACE = 1e-7  # as TOLERANCE: who loses less than this to an equilibrium may be in another


def nash_of_many(payoffs: Matrix) -> Mixture:
    """Return a maximin mixture [N] of the symmetric zero-sum meta-game, as ``nash`` does, for thousands of players."""
    return _equilibrium(antisymmetric(payoffs))


def nash_average_of_many(payoffs: Matrix) -> NashAverage:
    """Return what ``nash_average`` does, for thousands of players.

    No equilibrium uses a player who loses to another equilibrium, so the one of greatest entropy is sought among
    those only who are level with the one that was found, and against those only who would beat it.
    """
    from league.meta_solvers.flattest import flattest  # takes a third of a second to import

    game = antisymmetric(payoffs)
    scale = max(float(np.abs(game).max(initial=0.0)), 1e-300)
    level = np.flatnonzero(game @ _equilibrium(game) >= -_FACE * scale)
    _, firsts, originals = np.unique(game[level], axis=0, return_index=True, return_inverse=True)
    players, copies = level[firsts], np.bincount(originals.ravel())
    against = players
    while True:
        masses = flattest(game[np.ix_(against, players)], np.zeros(len(against)), "entropy")
        gains = game[:, players] @ masses
        better = _best(gains, against, _FACE * scale)
        if not len(better):
            break
        against = np.concatenate([against, better])
    mixture = np.zeros(len(game))
    mixture[level] = (masses / copies)[originals.ravel()]
    return NashAverage(mixture, game @ mixture)


def _equilibrium(game: NDArray[np.float64]) -> Mixture:
    """Return an equilibrium [N] of an antisymmetric game [N, N]."""
    scale = max(float(np.abs(game).max(initial=0.0)), 1e-300)
    chosen = np.argsort(-game.mean(axis=1), kind="stable")[:ADDED]
    while True:
        masses, _ = maximin(game[np.ix_(chosen, chosen)])
        better = _best(game[:, chosen] @ masses, chosen, TOLERANCE * scale)
        if not len(better):
            mixture = np.zeros(len(game))
            mixture[chosen] = masses
            return mixture
        chosen = np.concatenate([chosen, better])


def _best(gains: NDArray[np.float64], known: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Return the players, not yet ``known``, that gain most and more than ``least``: at most ADDED of them."""
    others = gains.copy()
    others[known] = -np.inf
    order = np.argsort(-others, kind="stable")[:ADDED]
    return np.asarray(order[others[order] > least])
