"""Nash equilibria of large populations, by the double oracle algorithm or regret matching+.

Double oracle (McMahan, Gordon and Blum 2003) in a symmetric zero-sum meta-game, where both sides share one set of
players: solve the game restricted to a small set, add the best responses to its equilibrium, and stop when nobody
gains against it; it is then an equilibrium of the full game. The set stays small where few players are strong. Among
hundreds of players that differ only by chance it grows, and linear programs take minutes: there the average play of
regret matching+ (Tammelin et al. 2015, "Solving heads-up limit Texas hold'em") comes within a thousandth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.theory.solvers.empirical_game import Matrix, Mixture, antisymmetric, largest
from league.theory.solvers.nash import maximin, symmetric_vertex
from league.theory.solvers.nash_averaging import NashAverage, distinct_players

MAX_ADDED = 16  # best responses at once: another linear program costs more than a few players too many
TOLERANCE = 1e-9  # of a gain, as a share of the largest payoff
MAX_DENSE = 128  # players of a linear program in numpy; with more it takes longer than to import a solver
MAX_PLAYERS = 256  # of a linear program; beyond, regret matching+ takes over
ROUNDS = 1_000  # of regret matching+: among 1,000 equal players nobody then gains a thousandth of the largest payoff
_SURELY = 1e-5  # a smaller chance may be rounding
_FACE = 1e-7  # as TOLERANCE: a player who loses less than this to an equilibrium may belong to another


def nash_of_many(payoffs: Matrix) -> Mixture:
    """Return a maximin mixture [N] of the symmetric zero-sum meta-game, as ``nash`` does, for thousands of players.

    Where an equilibrium needs more than ``MAX_PLAYERS`` players, it holds to within a thousandth of the largest payoff.
    """
    game = antisymmetric(payoffs)
    exact = _equilibrium(game)
    return regret_matching(game) if exact is None else exact


def nash_average_of_many(payoffs: Matrix) -> NashAverage:
    """Return what ``nash_average`` does, for thousands of players.

    No equilibrium uses a player who loses to another equilibrium, so the equilibrium of greatest entropy is sought
    among the players who tie with a first one, with constraints only for players who would beat it. If more than
    ``MAX_PLAYERS`` different players tie, it is not sought, and ``nash_of_many`` gives the mixture.
    """
    game = antisymmetric(payoffs)
    scale = largest(game)
    equilibrium = _equilibrium(game)
    tied = np.flatnonzero(game @ equilibrium >= -_FACE * scale) if equilibrium is not None else np.arange(len(game))
    if equilibrium is not None and equilibrium[tied].min() > _SURELY:
        # The only one: the players of another are among these, who all tie with it too, so that a vertex would lie
        # between others.
        return NashAverage(equilibrium, game @ equilibrium)
    firsts, originals = distinct_players(game[tied])
    if equilibrium is None or len(firsts) > MAX_PLAYERS:
        equilibrium = regret_matching(game) if equilibrium is None else equilibrium
        return NashAverage(equilibrium, game @ equilibrium)
    from league.theory.solvers.max_entropy import max_entropy  # takes a third of a second to import

    players = rivals = tied[firsts]
    while True:
        masses = max_entropy(game[np.ix_(rivals, players)], np.zeros(len(rivals)), "entropy")
        better = _best_responses(game[:, players] @ masses, rivals, _FACE * scale)
        if not len(better):
            break
        rivals = np.concatenate([rivals, better])
    mixture = np.zeros(len(game))
    mixture[tied] = (masses / np.bincount(originals))[originals]
    return NashAverage(mixture, game @ mixture)


def regret_matching(game: NDArray[np.float64], rounds: int = ROUNDS) -> Mixture:
    """Return the average play [N] of regret matching+ against itself in an antisymmetric game [N, N].

    In round t a player has probability in proportion to its regret so far, never below 0; round t has weight t in
    the average.
    """
    regrets, total = np.zeros(len(game)), np.zeros(len(game))
    strategy = np.full(len(game), 1.0 / len(game))
    for weight in range(1, rounds + 1):
        gains = game @ strategy  # the strategy earns 0 against itself
        regrets = np.maximum(regrets + gains, 0.0)
        strategy = regrets / regrets.sum() if regrets.any() else np.full(len(game), 1.0 / len(game))
        total += weight * strategy
    return np.asarray(total / total.sum())


def _equilibrium(game: NDArray[np.float64]) -> Mixture | None:
    """Return an equilibrium [N] of an antisymmetric game [N, N]; None where it takes more than MAX_PLAYERS players."""
    least = TOLERANCE * largest(game)
    chosen = np.argsort(-game.mean(axis=1), kind="stable")[:MAX_ADDED]
    while len(chosen) <= MAX_PLAYERS:
        restricted = game[np.ix_(chosen, chosen)]
        masses = symmetric_vertex(restricted) if len(chosen) <= MAX_DENSE else None
        masses = maximin(restricted)[0] if masses is None else masses
        better = _best_responses(game[:, chosen] @ masses, chosen, least)
        if not len(better):
            mixture = np.zeros(len(game))
            mixture[chosen] = masses
            return mixture
        chosen = np.concatenate([chosen, better])
    return None


def _best_responses(gains: NDArray[np.float64], present: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Return the players, none of them ``present``, that gain most and more than ``least``: at most MAX_ADDED."""
    candidates = gains.copy()
    candidates[present] = -np.inf
    order = np.argsort(-candidates, kind="stable")[:MAX_ADDED]
    return np.asarray(order[candidates[order] > least])
