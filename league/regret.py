"""Regret of a player over repeated matches: what it would have earned by playing otherwise, in hindsight.

From "From external to internal regret" (Blum and Mansour 2007, JMLR 8), in payoffs instead of losses.
In round t the player plays the distribution p_t over its A alternatives, each of which would have paid
u_t(a), all else as it was. External regret compares with the best single alternative; swap regret
with the best map F that plays F(a) whenever a was played. If it grows slower than the number of rounds
for every player, their joint play nears the coarse correlated equilibria (external) or the correlated
ones (swap): divided by the rounds it is the player's gap there.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.head_to_head import student_quantile
from league.payoffs import Estimate

Plays = NDArray[np.float64]  # distributions over alternatives, one-hot where only the play is known  # [T, A]
Payoffs = NDArray[np.float64]  # what each alternative would have paid, in the game's units  # [T, A]
Regrets = NDArray[np.float64]  # of several sequences, after each round  # [N, T]

_NO_CHANGE = 1e-9  # relative
_FEWEST = 3  # points of a fit


def external_regret(plays: Plays, payoffs: Payoffs) -> NDArray[np.float64]:
    """Return, after each round [T], max_a Σ u(a) - Σ p · u; negative where changing play beat every fixed one.

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
        raise ValueError("expected a distribution over the alternatives in every round, got one that is none")


class Growth(NamedTuple):
    """How regret grows with the rounds. Both tests are Park et al.'s (arXiv 2403.16843, section 3)."""

    trend: float | None  # chance of so many falls of R(t) / t if a fall were as likely as a rise; None: one round
    exponent: Estimate | None  # of the power law fitted to R(t), below 1 for no regret; None: R(t) > 0 too seldom


def growth(regrets: Regrets) -> Growth:
    """Return how the mean of several sequences' regrets grows.

    The interval of the exponent is a jackknife over sequences: the points of one curve are not independent,
    so the F-test of the paper's regression would be too sure.
    """
    curve = regrets.mean(axis=0)
    exponent = power(curve)
    if exponent is None:
        return Growth(falling(curve), None)
    count = len(regrets)
    others = [power((curve * count - one) / (count - 1)) for one in regrets] if count > 1 else [None]
    left = [one for one in others if one is not None]
    if len(left) < count:
        return Growth(falling(curve), Estimate(exponent, None, None))
    error = math.sqrt((count - 1) / count * sum((one - fmean(left)) ** 2 for one in left))
    half = student_quantile(count - 1) * error
    return Growth(falling(curve), Estimate(exponent, exponent - half, exponent + half))


def falling(curve: NDArray[np.float64]) -> float | None:
    """Return the chance of at least as many falls of R(t) / t as a curve [T] has, if each were a fair coin's.

    Small where regret grows slower than the rounds. A step without change is no fall.
    """
    steps = len(curve) - 1
    if not steps:
        return None
    rates = curve / np.arange(1, len(curve) + 1)
    falls = int((np.diff(rates) < -_NO_CHANGE * max(np.abs(rates).max(), _NO_CHANGE)).sum())
    return sum(math.comb(steps, more) for more in range(falls, steps + 1)) / 2.0**steps


def power(curve: NDArray[np.float64]) -> float | None:
    """Return the exponent b of the least-squares fit log R(t) = a + b log t over the rounds with R(t) > 0.

    None where fewer than half of the rounds, or fewer than three, have a positive regret: the curve is no
    power law then, and most often falls.
    """
    positive = np.flatnonzero(curve > 0.0)
    if len(positive) < max(_FEWEST, len(curve) / 2):
        return None
    return float(np.polyfit(np.log(positive + 1.0), np.log(curve[positive]), 1)[0])
