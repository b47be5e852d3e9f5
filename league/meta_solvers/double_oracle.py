"""Equilibria of large populations: of a few players first, to whom those are added who would beat their mixture.

The double oracle algorithm (McMahan, Gordon and Blum 2003) in a symmetric zero-sum meta-game, where both sides
are one: solve the game among the players of a small set, add the best responses to its equilibrium, and stop when
nobody gains against it. It is then an equilibrium of all. The sets stay small where few players are strong. Among
hundreds of level players, whom chance alone tells apart, they do not, and linear programs take minutes: there regret
matching+ (Tammelin et al. 2015, "Solving heads-up limit Texas hold'em") averages its way to within a thousandth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.meta_solvers.empirical import Matrix, Mixture, antisymmetric
from league.meta_solvers.nash import maximin
from league.meta_solvers.nash_averaging import NashAverage

ADDED = 16  # best responses at once: linear programs cost more than a few players too many
TOLERANCE = 1e-9  # of a gain, as a share of the largest payoff
LARGEST = 256  # players of a linear program; beyond, regret matching+ takes over
ROUNDS = 1_000  # of regret matching+: against 1,000 level players nobody then gains a thousandth of the largest payoff
_FACE = 1e-7  # as TOLERANCE: who loses less than this to an equilibrium may be in another


def nash_of_many(payoffs: Matrix) -> Mixture:
    """Return a maximin mixture [N] of the symmetric zero-sum meta-game, as ``nash`` does, for thousands of players.

    Where an equilibrium needs more than ``LARGEST`` players, it is one to within a thousandth of the largest payoff.
    """
    game = antisymmetric(payoffs)
    exact = _equilibrium(game)
    return regret_matching(game) if exact is None else exact


def nash_average_of_many(payoffs: Matrix) -> NashAverage:
    """Return what ``nash_average`` does, for thousands of players.

    No equilibrium uses a player who loses to another equilibrium, so the one of greatest entropy is sought among
    those only who are level with the one that was found, and against those only who would beat it. Where more than
    ``LARGEST`` players are in question it is not sought: the mixture is that of ``nash_of_many``.
    """
    from league.meta_solvers.flattest import flattest  # takes a third of a second to import

    game = antisymmetric(payoffs)
    scale = max(float(np.abs(game).max(initial=0.0)), 1e-300)
    found = _equilibrium(game)
    level = np.flatnonzero(game @ found >= -_FACE * scale) if found is not None else np.arange(len(game))
    if found is None or len(np.unique(game[level], axis=0)) > LARGEST:
        found = regret_matching(game) if found is None else found
        return NashAverage(found, game @ found)
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


def regret_matching(game: NDArray[np.float64], rounds: int = ROUNDS) -> Mixture:
    """Return the average play [N] of regret matching+ against itself in an antisymmetric game [N, N].

    In round t a player is played in proportion to its regret so far, never below 0; the round weighs t in the average.
    """
    regrets, total = np.zeros(len(game)), np.zeros(len(game))
    now = np.full(len(game), 1.0 / len(game))
    for weight in range(1, rounds + 1):
        gains = game @ now  # what plays itself earns 0
        regrets = np.maximum(regrets + gains, 0.0)
        now = regrets / regrets.sum() if regrets.any() else np.full(len(game), 1.0 / len(game))
        total += weight * now
    return np.asarray(total / total.sum())


def _equilibrium(game: NDArray[np.float64]) -> Mixture | None:
    """Return an equilibrium [N] of an antisymmetric game [N, N]; None where it takes more than LARGEST players."""
    scale = max(float(np.abs(game).max(initial=0.0)), 1e-300)
    chosen = np.argsort(-game.mean(axis=1), kind="stable")[:ADDED]
    while len(chosen) <= LARGEST:
        masses, _ = maximin(game[np.ix_(chosen, chosen)])
        better = _best(game[:, chosen] @ masses, chosen, TOLERANCE * scale)
        if not len(better):
            mixture = np.zeros(len(game))
            mixture[chosen] = masses
            return mixture
        chosen = np.concatenate([chosen, better])
    return None


def _best(gains: NDArray[np.float64], known: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Return the players, not yet ``known``, that gain most and more than ``least``: at most ADDED of them."""
    others = gains.copy()
    others[known] = -np.inf
    order = np.argsort(-others, kind="stable")[:ADDED]
    return np.asarray(order[others[order] > least])
