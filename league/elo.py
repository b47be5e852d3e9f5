"""Elo in batch: the Bradley-Terry model fitted to all deals at once, whatever order they were played in.

P(a wins a deal against b) = 1 / (1 + 10^-((R_a - R_b) / 400)), a drawn deal being half a win (Bradley and Terry
1952; Elo 1978). With θ = R ln 10 / 400 and s the deals a player scored, the log-likelihood

    Σ_pairs [s_ab ln σ(θ_a - θ_b) + s_ba ln σ(θ_b - θ_a)] - Σ_i θ_i² / 2τ²

is concave; Newton's method climbs it in a few steps. The prior, τ = 1,000 points, says less than half a deal
would, and keeps those finite who never lost. It does not depend on where the scale's zero is:
its best θ add up to 0 in every component of players who are connected by deals.

Elo takes for granted that skills are numbers on a line. Of cycles it sees nothing, and it rates by whoever is
there; ``league.meta_solvers.nash_average`` does neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from league.match_store import Pairs

POINTS = 400.0 / math.log(10.0)  # Elo points in one unit of log-odds
ANCHORED = 1500.0  # the rating of the anchor, or of the mean player where there is no anchor
PRIOR = 1000.0  # τ, in points
_STEPS = 100  # of Newton's method; ten are many


@dataclass(frozen=True, slots=True)
class Elo:
    """Ratings in Elo points; N players. Those of different components cannot be compared."""

    ratings: NDArray[np.float64]  # [N]
    errors: NDArray[np.float64]  # standard errors, relative to what holds the component's scale  # [N]
    component: NDArray[np.int64]  # of those who are connected by deals, from 0, the largest first  # [N]
    covariance: NDArray[np.float64]  # in points², of any two players' difference, whatever holds the scale  # [N, N]

    @property
    def interval(self) -> NDArray[np.float64]:
        """Return the ends of the 95 % intervals [2, N]."""
        return np.stack([self.ratings - 1.96 * self.errors, self.ratings + 1.96 * self.errors])

    def gap(self, one: int, other: int) -> tuple[float, float]:
        """Return how many points one player is above another, and the standard error of that."""
        spread = self.covariance[one, one] + self.covariance[other, other] - 2.0 * self.covariance[one, other]
        return float(self.ratings[one] - self.ratings[other]), math.sqrt(max(float(spread), 0.0))


def elo(pairs: Pairs, anchors: Sequence[str] = (), prior: float = PRIOR) -> Elo:
    """Return the ratings of all players of ``pairs``, the likeliest after ``prior`` points' deviation.

    A component's scale is held by the first of ``anchors`` in it, whose rating is 1500 exactly, else by its
    mean player. Errors are of the difference to that, from the inverse Hessian: one deal is one comparison,
    and drawn deals are less certain than they might be. Memory is N². Raises ArithmeticError should
    Newton's method not end.
    """
    number, points = len(pairs.players), pairs.won + pairs.drawn / 2.0
    theta, hessian = _fitted(number, pairs.a, pairs.b, points, pairs.deals, prior / POINTS)
    component = _components(number, pairs)
    holders = _holders(pairs.players, component, anchors)  # [components, N]
    covariance = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    through = covariance @ holders.T  # [N, components]
    held = (holders * through.T).sum(axis=1)  # variances of what holds  # [components]
    own = np.arange(number), component
    variance = np.diag(covariance) - 2.0 * through[own] + held[component]
    ratings = ANCHORED + POINTS * (theta - (holders @ theta)[component])
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
    theta = np.zeros(number)
    for _ in range(_STEPS):
        expected = 1.0 / (1.0 + np.exp(theta[b] - theta[a]))
        surplus = points - deals * expected
        gradient = np.bincount(a, surplus, number) - np.bincount(b, surplus, number) - theta / tau**2
        hessian = _hessian(number, a, b, deals * expected * (1.0 - expected), tau)
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 2.0 / max(float(np.abs(step).max(initial=0.0)), 1e-300))  # far off, the quadratic misleads
        theta += step
        if float(np.abs(step).max(initial=0.0)) < 1e-9:
            return theta, hessian
    raise ArithmeticError(f"the ratings of {number} players were not found in {_STEPS} steps of Newton's method")


def _hessian(
    number: int, a: NDArray[np.int64], b: NDArray[np.int64], weight: NDArray[np.float64], tau: float
) -> NDArray[np.float64]:
    """Return the weighted Laplacian of who met whom, and the prior's 1 / τ² on the diagonal [N, N]."""
    half = np.bincount(a * number + b, weight, number * number).reshape(number, number)
    met = half + half.T
    return np.asarray(np.diag(met.sum(axis=1) + 1.0 / tau**2) - met)


def _components(number: int, pairs: Pairs) -> NDArray[np.int64]:
    """Return which component each player is in, the largest numbered 0 [N]."""
    from scipy.sparse import coo_matrix  # takes a fifth of a second to import
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(pairs.a)), (pairs.a, pairs.b)), shape=(number, number))
    labels = connected_components(graph, directed=False)[1]
    order = np.argsort(-np.bincount(labels), kind="stable")
    return np.asarray(np.argsort(order)[labels], dtype=np.int64)


def _holders(players: Sequence[str], component: NDArray[np.int64], anchors: Sequence[str]) -> NDArray[np.float64]:
    """Return for each component the weights of the players whose mean is the scale's 1500 [components, N]."""
    members = component == np.arange(component.max(initial=-1) + 1)[:, None]
    weights = members / members.sum(axis=1, keepdims=True)
    for anchor in reversed([one for one in anchors if one in players]):
        place = players.index(anchor)
        weights[component[place]] = np.arange(len(players)) == place
    return np.asarray(weights)
