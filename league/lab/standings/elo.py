"""Elo in batch: the Bradley-Terry model fitted to all deals at once, whatever the order in which they were played.

P(a wins a deal against b) = 1 / (1 + 10^-((R_a - R_b) / 400)), a drawn deal being half a win (Bradley and Terry
1952; Elo 1978). With θ = R ln 10 / 400 and s the deals a player scored, the log-likelihood

    Σ_pairs [s_ab ln σ(θ_a - θ_b) + s_ba ln σ(θ_b - θ_a)] - Σ_i θ_i² / 2τ²

is concave; Newton's method maximises it in a few steps, each by conjugate gradients. The prior, τ = 1,000 points,
is weaker than half a deal, and keeps the ratings of players who never lost finite. It does not depend on the zero of
the scale: the maximum's θ sum to 0 in every component of players who are connected by deals.

Elo assumes that skills are numbers on a line: it cannot express cycles, and its ratings depend on which opponents
are present. ``league.theory.solvers.nash_average`` has neither limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from league.population.results.match_store import Pairs
from league.theory.components import components_of_pairs
from league.theory.solvers.empirical_game import largest

POINTS = 400.0 / math.log(10.0)  # Elo points in one unit of log-odds
ANCHORED = 1500.0  # the rating of the anchor, or of the mean player where there is no anchor
PRIOR = 1000.0  # τ, in points
_STEPS = 100  # most of Newton's method, which takes about ten
_GRADIENTS = 50  # most of conjugate gradients: where everybody met, they take ten, and elimination as long as forty
_PRECISION = 1e-8  # of a step by conjugate gradients, as a share of it
_BLOCK = 128  # rows of a matrix that is inverted at once


@dataclass(frozen=True, slots=True)
class Elo:
    """Ratings in Elo points; N players. Those of different components cannot be compared."""

    ratings: NDArray[np.float64]  # [N]
    errors: NDArray[np.float64]  # standard errors of the difference to the component's reference  # [N]
    component: NDArray[np.int64]  # index of the component of players connected by deals, the largest 0  # [N]
    covariance: NDArray[np.float64]  # in points²; gives the error of any difference of ratings  # [N, N]

    @property
    def interval(self) -> NDArray[np.float64]:
        """Return the bounds of the 95 % intervals [2, N]."""
        return np.stack([self.ratings - 1.96 * self.errors, self.ratings + 1.96 * self.errors])

    def difference(self, a: int, b: int) -> tuple[float, float]:
        """Return how many points player ``a`` is above ``b``, with its standard error."""
        variance = self.covariance[a, a] + self.covariance[b, b] - 2.0 * self.covariance[a, b]
        return float(self.ratings[a] - self.ratings[b]), math.sqrt(max(float(variance), 0.0))


def elo(pairs: Pairs, anchors: Sequence[str] = (), prior: float = PRIOR) -> Elo:
    """Return the maximum a posteriori ratings of all players of ``pairs``; ``prior`` is τ, in points.

    The reference of a component, rated 1500 exactly, is the first of ``anchors`` in it, else the mean of its
    players. Errors are of the difference to the reference, from the inverse Hessian: one deal is one comparison,
    and the errors of drawn deals are overestimated. Memory is N². Raises ArithmeticError if Newton's method
    does not converge.
    """
    number, points = len(pairs.players), pairs.won + pairs.drawn / 2.0
    theta, hessian = _fitted(number, pairs.a, pairs.b, points, pairs.deals, prior / POINTS)
    component = components_of_pairs(number, pairs.a, pairs.b)
    references = _references(pairs.players, component, anchors)  # [components, N]
    covariance = _inverse(hessian)
    with_references = covariance @ references.T  # covariances  # [N, components]
    of_references = (references * with_references.T).sum(axis=1)  # variances  # [components]
    with_reference = with_references[np.arange(number), component]  # [N]
    variance = np.diag(covariance) - 2.0 * with_reference + of_references[component]
    ratings = ANCHORED + POINTS * (theta - (references @ theta)[component])
    errors = np.asarray(POINTS * np.sqrt(np.maximum(variance, 0.0)))
    return Elo(ratings, errors, component, POINTS**2 * covariance)


def _fitted(
    number: int,
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    points: NDArray[np.float64],
    deals: NDArray[np.int64],
    tau: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return θ [N] and the Hessian of minus the log-posterior there [N, N]. Pairs are [K]."""
    theta, place, played = np.zeros(number), a * number + b, deals.astype(np.float64)
    for _ in range(_STEPS):
        expected = 1.0 / (1.0 + np.exp(theta[b] - theta[a]))
        surplus = points - played * expected
        gradient = np.bincount(a, surplus, number) - np.bincount(b, surplus, number) - theta / tau**2
        hessian = _hessian(number, place, played * expected * (1.0 - expected), tau)
        step = _newton_step(hessian, gradient)
        step *= min(1.0, 2.0 / largest(step))  # far from the maximum a full step may overshoot
        theta += step
        if float(np.abs(step).max(initial=0.0)) < 1e-9:
            return theta, hessian
    raise ArithmeticError(f"the ratings of {number} players were not found in {_STEPS} steps of Newton's method")


def _hessian(number: int, place: NDArray[np.int64], weight: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """Return the weighted Laplacian of the graph of pairs, plus the prior's 1 / τ² on the diagonal [N, N].

    ``place`` [K] are the pairs' places in a flat matrix, each once.
    """
    half = np.zeros((number, number))
    half.ravel()[place] = weight
    hessian = -half - half.T
    np.fill_diagonal(hessian, 1.0 / tau**2 - hessian.sum(axis=1))
    return hessian


def _newton_step(hessian: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the x [N] of hessian x = gradient, by conjugate gradients, or by elimination where they take long.

    They are preconditioned by the diagonal (Hestenes and Stiefel 1952). Long chains of players take long.
    """
    diagonal, step, left = np.diag(hessian), np.zeros_like(gradient), gradient.copy()
    direction = left / diagonal
    size = first = float(left @ direction)
    for _ in range(_GRADIENTS):
        if size <= _PRECISION**2 * first:
            return step
        image = hessian @ direction
        length = size / float(direction @ image)
        step += length * direction
        left -= length * image
        scaled = left / diagonal
        before, size = size, float(left @ scaled)
        direction = scaled + size / before * direction
    return np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a symmetric positive definite matrix [N, N], in half the time of a general one's.

    By halves: of [[A, B], [B', D]] from the inverses of A and of A's Schur complement, D - B' A⁻¹ B.
    """
    number = len(matrix)
    if number <= _BLOCK:
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    half = number // 2
    first, across = _inverse(matrix[:half, :half]), matrix[:half, half:]
    solved = first @ across
    second = _inverse(matrix[half:, half:] - across.T @ solved)
    corner = solved @ second
    inverse = np.empty_like(matrix)
    inverse[:half, :half] = first + corner @ solved.T
    inverse[:half, half:], inverse[half:, :half] = -corner, -corner.T
    inverse[half:, half:] = second
    return inverse


def _references(players: Sequence[str], component: NDArray[np.int64], anchors: Sequence[str]) -> NDArray[np.float64]:
    """Return, for each component, the weights of the players whose mean rating is 1500 [components, N]."""
    members = component == np.arange(component.max(initial=-1) + 1)[:, None]
    weights = members / members.sum(axis=1, keepdims=True)
    for anchor in reversed([anchor for anchor in anchors if anchor in players]):
        index = players.index(anchor)
        weights[component[index]] = np.arange(len(players)) == index
    return np.asarray(weights)
