"""Projected replicator dynamics: evolution in which no strategy dies out (Lanctot et al. 2017, arXiv 1711.00832).

ẋ_i = x_i (u_i(x) - ū(x)), projected after each step onto the distributions whose every entry is at least γ.
The answer is the average over time: in zero-sum games it nears an equilibrium while x itself circles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.theory.solvers.empirical_game import EmpiricalGame, Matrix, Missing, Mixture, antisymmetric, largest

STEPS = 10_000
STEP = 0.1  # with STEPS, a time of 1,000 / the largest payoff
GAMMA = 1e-6


def projected_replicator_dynamics(
    game: EmpiricalGame,
    steps: int = STEPS,
    dt: float = STEP,
    gamma: float = GAMMA,
    missing: Missing = "refuse",
) -> tuple[Mixture, ...]:
    """Return each player's mixture, averaged over the uniform start and all ``steps``.

    ``dt`` is in units of 1 / payoff. ``gamma`` is the least probability of a strategy; raises
    ValueError when it is more than a player can give to all of its strategies.
    """
    if not 0.0 <= gamma * max(game.sizes) <= 1.0:
        raise ValueError(f"expected 0 <= gamma <= 1 / {max(game.sizes)} strategies, got gamma={gamma}")
    payoffs = game.filled(missing)
    by_strategy = [np.moveaxis(payoffs[player], player, 0) for player in range(len(payoffs))]
    mixtures = [np.full(size, 1.0 / size) for size in game.sizes]
    sums = [mixture.copy() for mixture in mixtures]
    for _ in range(steps):
        values = [_strategy_values(by_strategy[p], mixtures[:p] + mixtures[p + 1 :]) for p in range(len(mixtures))]
        mixtures = [_step(x, u, dt, gamma) for x, u in zip(mixtures, values, strict=True)]
        for total, mixture in zip(sums, mixtures, strict=True):
            total += mixture
    return tuple(total / (steps + 1) for total in sums)


def prd(payoffs: Matrix) -> Mixture:
    """Return the dynamics' average [N] in the symmetric zero-sum meta-game; pairs that never met count as tied.

    Payoffs are divided by the largest, so a game's units do not matter. Both players start alike and
    stay alike, so one mixture stands for both.
    """
    matrix = antisymmetric(payoffs)
    matrix = matrix / largest(matrix)
    mixture = np.full(len(matrix), 1.0 / len(matrix))
    total = mixture.copy()
    for _ in range(STEPS):
        mixture = _step(mixture, matrix @ mixture, STEP, GAMMA)
        total += mixture
    return np.asarray(total / (STEPS + 1))


def _step(mixture: Mixture, values: NDArray[np.float64], dt: float, gamma: float) -> Mixture:
    """Return a mixture [N] after time ``dt`` in which its strategies earn ``values`` [N]."""
    return project(mixture + dt * mixture * (values - mixture @ values), gamma)


def _strategy_values(payoffs: NDArray[np.float64], opponents: Sequence[Mixture]) -> NDArray[np.float64]:
    """Return what each strategy [n_p] of a player earns, by ``payoffs`` [n_p, …], against the opponents' mixtures."""
    values = payoffs
    for mixture in reversed(opponents):
        values = values @ mixture
    return values


def project(point: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """Return the nearest point [N] whose entries sum to one and are at least ``gamma``.

    The entries above their floors give up the same amount each (Duchi et al. 2008, "Efficient
    projections onto the l1-ball"), here with the floor at gamma instead of 0.
    """
    total = 1.0 - gamma * len(point)
    above = point - gamma
    largest_first = np.sort(above)[::-1]
    shares = (largest_first.cumsum() - total) / np.arange(1, len(point) + 1)
    shift = shares[np.flatnonzero(largest_first > shares)[-1]] if total > 0.0 else above.max()
    return np.asarray(np.maximum(above - shift, 0.0) + gamma)
