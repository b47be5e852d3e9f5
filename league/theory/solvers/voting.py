"""Social choice over battles: leaders, ranked pairs, maximal lotteries and Soft Condorcet Optimization.

A margin [N, N] is how much more often row wins than column, antisymmetric, and 0 or nan where the two never met. The
methods are those of ``open_spiel.python.voting`` ("Evaluating agents using social choice theory", Lanctot et al. 2023,
arXiv 2312.03121) with two differences: margins may be fractions, so that every game can weigh alike, and nothing is
drawn or broken by position, so that the answer does not depend on the order of players or votes. Players that a method
cannot tell apart share a rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from league.theory.solvers.empirical_game import ROUNDING, largest
from league.theory.solvers.nash_averaging import nash_average

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]

SUPPORT = 1e-6  # a smaller chance in a lottery is rounding
STEPS, STEP = 2000, 5.0  # of Soft Condorcet Optimization; a step in units of the greatest share of one player's votes
SPAN = 100.0  # of its ratings


def leaders(margins: Floats) -> NDArray[np.bool_]:
    """Return who is in the smallest set whose members all beat everybody outside it [N] (Smith 1973).

    One player who beats all others leads alone, and a cycle that beats the rest together. Who never met is not beaten.
    """
    from scipy.sparse.csgraph import connected_components  # takes a third of a second to import

    unbeaten = _clean(margins) >= 0.0  # of any two players at least one is not beaten by the other
    _, component = connected_components(unbeaten, directed=True, connection="strong")
    return np.asarray(component == component[unbeaten.sum(axis=1).argmax()])


def ranked_pairs(margins: Floats) -> Ranks:
    """Return ranks from 0, the best [N] (Tideman 1987): greatest first, wins are locked unless they close a circle.

    Wins of equal margin are locked together, and those that close a circle with each other not at all; so several
    players may share a rank.
    """
    from scipy.sparse.csgraph import connected_components

    clean = _clean(margins)
    number, locked = len(clean), np.zeros(clean.shape, bool)
    reach = np.eye(number, dtype=bool)
    for margin in sorted({*clean[clean > 0.0].tolist()}, reverse=True):
        wins = (clean == margin) & ~reach.T
        if not wins.any():
            continue
        _, component = connected_components(locked | wins, directed=True, connection="strong")
        wins &= component[:, None] != component
        locked |= wins
        for winner, loser in np.argwhere(wins & ~reach).tolist():
            if not reach[winner, loser]:
                reach |= reach[:, [winner]] & reach[loser]
    return _levels(reach & ~np.eye(number, dtype=bool))


def maximal_lottery(margins: Floats) -> Floats:
    """Return the chances with which a lottery over players is beaten by none of them [N] (Fishburn 1984).

    It is the equilibrium of greatest entropy of the game whose payoffs are the margins: over shares of wins, Nash
    averaging and the maximal lottery are one thing. Copies of a player share its chance.
    """
    return np.asarray(nash_average(_clean(margins)).mixture)


def lottery_ranks(margins: Floats) -> Ranks:
    """Return ranks by lotteries, from 0, the best [N]: whom the lottery draws comes first, then the next lottery.

    Raises RuntimeError for a lottery that draws nobody, which no margins have.
    """
    clean = _clean(margins)
    ranks, left, rank = np.zeros(len(clean), np.int64), np.arange(len(clean)), 0
    while len(left):
        drawn = maximal_lottery(clean[np.ix_(left, left)]) > SUPPORT
        if not drawn.any():
            raise RuntimeError(f"The maximal lottery over players {left.tolist()} draws none of them.")
        ranks[left[drawn]], left, rank = rank, left[~drawn], rank + 1
    return ranks


def soft_condorcet(wins: Floats, steps: int = STEPS, step: float = STEP) -> Floats:
    """Return ratings from 0 to ``SPAN`` that put few votes the wrong way round [N] (arXiv 2411.00119).

    ``wins`` [N, N] are how often row won against column. From equal ratings r the loss Σ wins_ab σ(r_b − r_a) is
    descended by the gradient; it is not convex, and this is the minimum that the descent from there finds.
    """
    shares = np.asarray(wins / max(float(wins.sum()), 1.0))
    rate = step / max(float((shares + shares.T).sum(axis=1).max(initial=0.0)), ROUNDING)
    ratings = np.full(len(shares), SPAN / 2.0)
    for _ in range(steps):
        wrong = 1.0 / (1.0 + np.exp(np.clip(ratings[:, None] - ratings, -SPAN, SPAN)))  # of row's wins over column
        pull = shares * wrong * (1.0 - wrong)
        ratings = np.clip(ratings + rate * (pull.sum(axis=1) - pull.sum(axis=0)), 0.0, SPAN)
    return ratings


def _clean(margins: Floats) -> Floats:
    """Return margins with exactly 0 where two players never met, and equal ones equal whatever rounded them [N, N]."""
    known = np.nan_to_num(margins)
    unit = ROUNDING * largest(known)
    return np.asarray(np.round(known / unit) * unit)


def _levels(above: NDArray[np.bool_]) -> Ranks:
    """Return the ranks of players in an order [N, N]: of those who are left, the ones that nobody left is above.

    Raises RuntimeError for what is no order, because some players are above each other in a circle.
    """
    ranks, left, rank = np.zeros(len(above), np.int64), np.ones(len(above), bool), 0
    while left.any():
        first = left & ~above[left].any(axis=0)
        if not first.any():
            raise RuntimeError(f"The locked wins form a cycle among players {np.flatnonzero(left).tolist()}.")
        ranks[first], rank = rank, rank + 1
        left &= ~first
    return ranks
