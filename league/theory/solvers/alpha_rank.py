"""α-rank: how often evolution visits each profile (Omidshafiei et al. 2019, arXiv 1903.01373).

A population of m plays one strategy; now and then a mutant tries another and takes over with the
fixation probability ρ = (1 - e^-u) / (1 - e^-mu), u = α (f_mutant - f_resident), 1/m where u = 0. The
stationary distribution of that Markov chain ranks profiles. It exists for any number of players and
general sums, is unique, and puts its mass on cycles as readily as on equilibria. With α = ∞ a
better mutant takes over with probability 1 - ε, an equal one with ½, a worse one with ε: the paper's perturbed
response graph.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from league.theory.solvers.empirical_game import (
    EmpiricalGame,
    Joint,
    Matrix,
    Missing,
    Mixture,
    antisymmetric,
    largest,
    without_rounding,
)

EPSILON = 1e-6
POPULATION = 50  # m, as in the paper's figures


def alpha_rank(
    game: EmpiricalGame,
    alpha: float = math.inf,
    m: int = POPULATION,
    epsilon: float = EPSILON,
    missing: Missing = "refuse",
) -> Joint:
    """Return the stationary distribution over profiles [n_1, …, n_P], one population of ``m`` for each player.

    ``alpha`` is in units of 1 / payoff. Raises ArithmeticError when ``alpha`` is so large that a
    transition underflows: then take α = ∞. The transition matrix is dense: memory is (n_1 … n_P)².
    """
    payoffs = game.filled(missing)
    profiles = np.arange(math.prod(game.sizes)).reshape(game.sizes)
    chain = np.zeros((profiles.size, profiles.size))
    mutations = sum(game.sizes) - len(game.sizes)
    for player, size in enumerate(game.sizes):
        index = np.moveaxis(profiles, player, 0).reshape(size, -1)  # [n_p, profiles of the others]
        fitness = np.moveaxis(payoffs[player], player, 0).reshape(size, -1)
        gains = fitness[None] - fitness[:, None]  # [resident, mutant, profiles of the others]
        chain[index[:, None], index[None]] = _fixation(gains, largest(payoffs), alpha, m, epsilon) / mutations
    return stationary(chain).reshape(game.sizes)


def alpha_rank_population(
    payoffs: Matrix, alpha: float = math.inf, m: int = POPULATION, epsilon: float = EPSILON
) -> Mixture:
    """Return the stationary distribution over the strategies [N] of one population that plays itself.

    ``payoffs`` [N, N] are the row's. With finite ``alpha`` fitness is the mean payoff against the other m - 1
    members, mutants among them, as the mutant spreads. Raises ValueError for payoffs that are missing or infinite,
    ArithmeticError as ``alpha_rank`` does.
    """
    if not np.isfinite(payoffs).all():
        raise ValueError("expected a finite payoff of every strategy against every other")
    if math.isinf(alpha):
        takeover = _fixation(payoffs.T - payoffs, largest(payoffs), alpha, m, epsilon)  # the mutant's (column's) gain
    else:
        takeover = _population_fixation(payoffs, alpha, m)
    return stationary(takeover / max(len(payoffs) - 1, 1))


def alpha_rank_mixture(payoffs: Matrix) -> Mixture:
    """Return the α = ∞ ranking [N] of a symmetric zero-sum meta-game; pairs that never met count as tied."""
    return alpha_rank_population(antisymmetric(payoffs))


def _fixation(gains: NDArray[np.float64], scale: float, alpha: float, m: int, epsilon: float) -> NDArray[np.float64]:
    """Return a mutant's fixation probability by its payoff less the resident's (any shape), both up to ``scale``."""
    tied = without_rounding(gains, scale) == 0.0
    if math.isinf(alpha):
        return np.where(tied, 0.5, np.where(gains > 0.0, 1.0 - epsilon, epsilon))
    u = alpha * np.abs(np.where(tied, 1.0, gains))
    # The formula in powers of e^-|u|, which cannot overflow; a worse mutant's is smaller by e^-(m-1)|u|.
    better = np.expm1(-u) / np.expm1(-m * u)
    return np.where(tied, 1.0 / m, np.where(gains > 0.0, better, better * np.exp(-(m - 1) * u)))


def _population_fixation(payoffs: Matrix, alpha: float, m: int) -> NDArray[np.float64]:
    """Return the probabilities [resident, mutant] by the birth-death chain over the number k of mutants.

    ρ = 1 / (1 + Σ_l Π_{k <= l} exp(-α (f_mutant(k) - f_resident(k)))), l = 1 … m - 1.
    """
    k = np.arange(1, m)[:, None, None]
    diagonal = np.diag(payoffs)
    mutant = ((k - 1) * diagonal[None, None, :] + (m - k) * payoffs.T[None]) / (m - 1)
    resident = ((m - k - 1) * diagonal[None, :, None] + k * payoffs[None]) / (m - 1)
    exponents = -alpha * (mutant - resident).cumsum(axis=0)  # [m - 1, resident, mutant]
    top = np.maximum(exponents.max(axis=0), 0.0)
    return np.asarray(np.exp(-top) / (np.exp(-top) + np.exp(exponents - top).sum(axis=0)))


def stationary(chain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the stationary distribution [S] of a Markov chain's transitions [S, S]; the diagonal is not read.

    Grassmann, Taksar and Heyman's elimination (Operations Research 33, 1985): it never subtracts, so
    transitions as small as ε cost no accuracy, where an eigenvector would be noise.
    Raises ArithmeticError for a chain with a state that cannot be left.
    """
    reduced = chain.copy()
    for state in range(len(reduced) - 1, 0, -1):
        out = reduced[state, :state].sum()
        if not out > 0.0:
            raise ArithmeticError(
                f"the Markov chain of {len(chain)} states cannot leave state {state}: take α = ∞ or a smaller α"
            )
        reduced[:state, state] /= out
        reduced[:state, :state] += np.outer(reduced[:state, state], reduced[state, :state])
    visits = np.ones(len(reduced))
    for state in range(1, len(reduced)):
        visits[state] = visits[:state] @ reduced[:state, state]
    return np.asarray(visits / visits.sum())
