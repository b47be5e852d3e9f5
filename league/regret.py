"""Regret of a player over repeated matches: what it would have earned by playing otherwise, in hindsight.

From "From external to internal regret" (Blum and Mansour 2007, JMLR 8), in payoffs instead of losses.
In round t the player plays the distribution p_t over its A alternatives, each of which would have paid
u_t(a), all else as it was. External regret compares with the best single alternative; swap regret
with the best map F that plays F(a) whenever a was played. If it grows slower than the number of rounds
for every player, their joint play nears the coarse correlated equilibria (external) or the correlated
ones (swap): divided by the rounds it is the player's gap there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Plays = NDArray[np.float64]  # distributions over alternatives, one-hot where only the play is known  # [T, A]
Payoffs = NDArray[np.float64]  # what each alternative would have paid, in the game's units  # [T, A]


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
