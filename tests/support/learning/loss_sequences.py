"""Losses that an adversary makes, and learners whose regret against them is known: what regret measures are tested by.

With N alternatives and losses in [0, 1], Hedge with the rates sqrt(ln N / t) has an external regret of order sqrt(T)
against every sequence, and no learner has less against all (Cesa-Bianchi and Lugosi 2006, "Prediction, Learning, and
Games", theorems 2.3 and 3.7). Following the leader has regret of order T against alternating losses (Shalev-Shwartz
2012, "Online Learning and Online Convex Optimization", example 2.2): the leader is always the one that loses next.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Losses = NDArray[np.float64]  # of each alternative in each round, in [0, 1]  # [T, A]
Rows = NDArray[np.float64]  # distributions over alternatives by round  # [T, A]
Learner = Callable[[Losses], Rows]


def alternating_losses(rounds: int) -> Losses:
    """Return losses of two alternatives: half a loss for the first, then a whole one for each in turn, the second
    first.
    """
    losses = np.zeros((rounds, 2))
    losses[0, 0] = 0.5
    losses[1::2, 1] = 1.0
    losses[2::2, 0] = 1.0
    return losses


def coin_losses(rounds: int, alternatives: int, seed: int) -> Losses:
    """Return independent fair coins: no learner expects less loss than half the rounds, the best in hindsight has."""
    return np.random.default_rng(seed).integers(0, 2, (rounds, alternatives)).astype(np.float64)


def hedge(losses: Losses) -> Rows:
    """Return what Hedge plays, p_t ∝ exp(−η_t L_{t−1}) with η_t = sqrt(ln A / t)."""
    rounds, alternatives = losses.shape
    before = np.vstack([np.zeros(alternatives), losses.cumsum(axis=0)[:-1]])
    rates = np.sqrt(np.log(alternatives) / np.arange(1, rounds + 1))[:, None]
    weights = np.exp(-rates * (before - before.min(axis=1, keepdims=True)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def follow_the_leader(losses: Losses) -> Rows:
    """Return what is played by whoever takes the alternative with the least loss so far, the first of equals."""
    before = np.vstack([np.zeros(losses.shape[1]), losses.cumsum(axis=0)[:-1]])
    return np.asarray(np.eye(losses.shape[1])[before.argmin(axis=1)])
