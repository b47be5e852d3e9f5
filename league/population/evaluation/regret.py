"""Regret of a player over repeated rounds: how much more another policy would have earned, in hindsight.

From "From external to internal regret" (Blum and Mansour 2007, JMLR 8), in payoffs instead of losses.
In round t the player plays the distribution p_t over its A alternatives; alternative a would have paid
u_t(a), all else unchanged. External regret compares with the best single alternative; swap regret
with the best map F that plays F(a) whenever a was played. If it grows slower than the number of rounds
for every player, their joint play approaches the set of coarse correlated equilibria (external) or of
correlated equilibria (swap): regret divided by the number of rounds is the player's gap.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.theory.statistics import Estimate, student_quantile

Plays = NDArray[np.float64]  # distributions over alternatives, one-hot where only the action is known  # [T, A]
Payoffs = NDArray[np.float64]  # what each alternative would have paid, in the game's units  # [T, A]
Regrets = NDArray[np.float64]  # of several sequences, after each round  # [N, T]

_TOLERANCE = 1e-9  # relative; a smaller step is no change
_MIN_POINTS = 3  # of a fit


def external_regret(plays: Plays, payoffs: Payoffs) -> NDArray[np.float64]:
    """Return, after each round [T], max_a Σ u(a) - Σ p · u; negative if play beat every fixed alternative.

    Raises ValueError for shapes or distributions that do not fit.
    """
    _check(plays, payoffs)
    earned = (plays * payoffs).sum(axis=1).cumsum()
    return np.asarray(payoffs.cumsum(axis=0).max(axis=1) - earned)


def swap_regret(plays: Plays, payoffs: Payoffs) -> NDArray[np.float64]:
    """Return, after each round [T], Σ_a max_b Σ p(a) (u(b) - u(a)); never negative, never below external regret.

    Raises ValueError for shapes or distributions that do not fit.
    """
    _check(plays, payoffs)
    regrets = np.empty(len(plays))
    gains = np.zeros((plays.shape[1], plays.shape[1]))  # of playing b where a was played  # [A, A]
    for t, (play, paid) in enumerate(zip(plays, payoffs, strict=True)):
        gains += play[:, None] * (paid[None, :] - paid[:, None])
        regrets[t] = gains.max(axis=1).sum()
    return regrets


def _check(plays: Plays, payoffs: Payoffs) -> None:
    """Raise ValueError unless ``plays`` are distributions, with a known payoff for every alternative."""
    if plays.ndim != 2 or plays.shape != payoffs.shape or not plays.shape[1]:
        raise ValueError(f"expected plays and payoffs of one shape [T, A], got {plays.shape} and {payoffs.shape}")
    if not np.isfinite(payoffs).all():
        raise ValueError("expected a finite payoff for every alternative in every round, got nan or infinity")
    if not ((plays >= 0.0).all() and np.allclose(plays.sum(axis=1), 1.0, atol=1e-6)):
        raise ValueError("expected a distribution over the alternatives in every round, got a row that is not one")


class RegretGrowth(NamedTuple):
    """How regret grows with the rounds, by the two tests of Park et al. (arXiv 2403.16843, section 3)."""

    trend: (
        float | None
    )  # p-value: R(t) / t falls as often by chance, if falls and rises are equally likely; None: one round
    exponent: Estimate | None  # of the power law fitted to R(t); below 1: no-regret; None: R(t) > 0 too seldom


def regret_growth(regrets: Regrets) -> RegretGrowth:
    """Return how the mean regret of several sequences grows.

    The interval of the exponent is a jackknife over sequences: the points of one curve are not independent,
    so the F-test of the paper's regression would be overconfident.
    """
    curve = regrets.mean(axis=0)
    trend, exponent = trend_p_value(curve), power_law_exponent(curve)
    if exponent is None:
        return RegretGrowth(trend, None)
    count = len(regrets)
    leave_one_out = [(curve * count - regret) / (count - 1) for regret in regrets] if count > 1 else []
    replicates = [b for b in map(power_law_exponent, leave_one_out) if b is not None]
    if len(replicates) < count:
        return RegretGrowth(trend, Estimate(exponent, None, None))
    error = math.sqrt((count - 1) / count * sum((b - fmean(replicates)) ** 2 for b in replicates))
    half = student_quantile(count - 1) * error
    return RegretGrowth(trend, Estimate(exponent, exponent - half, exponent + half))


def trend_p_value(curve: NDArray[np.float64]) -> float | None:
    """Return the probability of at least as many falls of R(t) / t as a curve [T] has, if each were a fair coin's.

    Small where regret grows slower than the rounds. A step without change is no fall. None for one round.
    """
    steps = len(curve) - 1
    if not steps:
        return None
    rates = curve / np.arange(1, len(curve) + 1)
    falls = int((np.diff(rates) < -_TOLERANCE * max(np.abs(rates).max(), _TOLERANCE)).sum())
    total, ways = 0, math.comb(steps, falls)  # integers: 2 to the power of the steps is not a float beyond 1,023
    for k in range(falls, steps + 1):
        total += ways
        ways = ways * (steps - k) // (k + 1)
    return total / (1 << steps)


def power_law_exponent(curve: NDArray[np.float64]) -> float | None:
    """Return the exponent b of the least-squares fit log R(t) = a + b log t over the rounds with R(t) > 0.

    None if fewer than half of the rounds, or fewer than three, have a positive regret: then the curve is not a
    power law, and mostly falls.
    """
    positive = np.flatnonzero(curve > 0.0)
    if len(positive) < max(_MIN_POINTS, len(curve) / 2):
        return None
    return float(np.polyfit(np.log(positive + 1.0), np.log(curve[positive]), 1)[0])
