"""α-rank: how often evolution visits each profile (Omidshafiei et al. 2019, arXiv 1903.01373).

A population of m plays one strategy; now and then a mutant tries another and takes over with the
fixation probability ρ = (1 - e^-u) / (1 - e^-mu), u = α (f_mutant - f_resident), 1/m where u = 0. The
stationary distribution of that Markov chain ranks profiles. It exists for any number of players and
general sums, is unique, and puts its mass on cycles as readily as on equilibria. With α = ∞ a
better mutant takes over with 1 - ε, a level one with ½, a worse one with ε: the paper's perturbed response graph.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from league.meta_solvers.empirical import EmpiricalGame, Joint, Matrix, Missing, Mixture, antisymmetric

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
    transition underflows: then take α = ∞. The chain is kept whole: memory is (n_1 … n_P)².
    """
    payoffs = game.filled(missing)
    profiles = np.arange(math.prod(game.sizes)).reshape(game.sizes)
    chain = np.zeros((profiles.size, profiles.size))
    mutations = sum(game.sizes) - len(game.sizes)
    for player, size in enumerate(game.sizes):
        index = np.moveaxis(profiles, player, 0).reshape(size, -1)  # [n_p, profiles of the others]
        fitness = np.moveaxis(payoffs[player], player, 0).reshape(size, -1)
        gains = fitness[None] - fitness[:, None]  # [resident, mutant, profiles of the others]
        chain[index[:, None], index[None]] = _fixation(gains, alpha, m, epsilon) / mutations
    return stationary(chain).reshape(game.sizes)


def alpha_rank_population(
    payoffs: Matrix, alpha: float = math.inf, m: int = POPULATION, epsilon: float = EPSILON
) -> Mixture:
    """Return the stationary distribution over the strategies [N] of one population that plays itself.

    ``payoffs`` [N, N] are the row's, all known. With finite ``alpha`` fitness is the mean payoff
    against the other m - 1 of the population as it stands while the mutant spreads. Raises
    ArithmeticError as ``alpha_rank`` does.
    """
    if math.isinf(alpha):
        takeover = _fixation(payoffs.T - payoffs, alpha, m, epsilon)  # what the mutant (column) has over the resident
    else:
        takeover = _population_fixation(payoffs, alpha, m)
    return stationary(takeover / max(len(payoffs) - 1, 1))


def alpha_rank_mixture(payoffs: Matrix) -> Mixture:
    """Return the α = ∞ ranking [N] of a symmetric zero-sum meta-game; pairs that never met count as level."""
    return alpha_rank_population(antisymmetric(payoffs))


def _fixation(gains: NDArray[np.float64], alpha: float, m: int, epsilon: float) -> NDArray[np.float64]:
    """Return a mutant's probability of taking over, for what it earns more than the resident (any shape)."""
    level = np.abs(gains) <= 1e-12 * max(float(np.abs(gains).max()), 1e-300)
    if math.isinf(alpha):
        return np.where(level, 0.5, np.where(gains > 0.0, 1.0 - epsilon, epsilon))
    u = alpha * np.abs(np.where(level, 1.0, gains))
    # The formula in powers of e^-|u|, which cannot overflow; a worse mutant's has a factor e^-(m-1)|u| more.
    better = np.expm1(-u) / np.expm1(-m * u)
    return np.where(level, 1.0 / m, np.where(gains > 0.0, better, better * np.exp(-(m - 1) * u)))


def _population_fixation(payoffs: Matrix, alpha: float, m: int) -> NDArray[np.float64]:
    """Return the probabilities [resident, mutant] by the birth-death chain over the number k of mutants.

    ρ = 1 / (1 + Σ_l Π_{k <= l} exp(-α (f_mutant(k) - f_resident(k)))), l = 1 … m - 1.
    """
    k = np.arange(1, m)[:, None, None]
    own = np.diag(payoffs)
    mutant = ((k - 1) * own[None, None, :] + (m - k) * payoffs.T[None]) / (m - 1)
    resident = ((m - k - 1) * own[None, :, None] + k * payoffs[None]) / (m - 1)
    exponents = -alpha * (mutant - resident).cumsum(axis=0)  # [m - 1, resident, mutant]
    top = np.maximum(exponents.max(axis=0), 0.0)
    return np.asarray(np.exp(-top) / (np.exp(-top) + np.exp(exponents - top).sum(axis=0)))


def stationary(chain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the stationary distribution [S] of a Markov chain's transitions [S, S]; the diagonal is not read.

    Grassmann, Taksar and Heyman's elimination (Operations Research 33, 1985): it never subtracts, so
    transitions as small as ε cost no accuracy, where an eigenvector would be noise.
    Raises ArithmeticError for a chain that cannot return from somewhere.
    """
    rest = chain.copy()
    for state in range(len(rest) - 1, 0, -1):
        out = rest[state, :state].sum()
        if not out > 0.0:
            raise ArithmeticError(
                f"the Markov chain of {len(chain)} states cannot leave one: take α = ∞ or a smaller α"
            )
        rest[:state, state] /= out
        rest[:state, :state] += np.outer(rest[:state, state], rest[state, :state])
    visits = np.ones(len(rest))
    for state in range(1, len(rest)):
        visits[state] = visits[:state] @ rest[:state, state]
    return np.asarray(visits / visits.sum())
