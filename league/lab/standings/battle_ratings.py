"""Ratings of other people's battles: Bradley-Terry with seats, Nash averaging, and social choice, beside each other.

The model is P(first wins) = σ(θ_first − θ_second + δ_game), a tie being half a win, and δ the value of the first seat
in a game. Battles are weighted so that all games count equally, and

    θ, δ maximise  Σ_r w_r [s_r ln σ_r + (1 − s_r) ln(1 − σ_r)] − (Σ θ² + Σ δ²) / 2τ²

with ``elo``'s weak prior τ. Intervals are the sandwich A⁻¹ B A⁻¹ with B over clusters of battles, so that repeated
matches of one deal do not count as independent evidence; a player who won or lost everything has no spread, and gets
the curvature's A⁻¹ instead. Social choice sees how often each player won against each other, on average over the games
in which both met; who is among the leaders is also computed on resampled deals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.seeds import derive_seed
from league.lab.standings.battles import Battles
from league.lab.standings.elo import ANCHORED, POINTS, PRIOR
from league.theory.components import components_of_pairs
from league.theory.cycles import find_cycles
from league.theory.solvers.empirical_game import largest
from league.theory.solvers.voting import leaders, lottery_ranks, maximal_lottery, ranked_pairs, soft_condorcet
from league.theory.statistics import Estimate, student_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 200  # of deals, for the leaders' membership
_STEPS = 100  # most of Newton's method
_UNSEEN = 1e-10  # a smaller share of the greatest eigenvalue is 0


class RatedPlayer(NamedTuple):
    """One player by all methods. Ranks begin with 1; players whom a method cannot tell apart share one."""

    player: str
    battles: int
    score: float  # share of its battles, games weighed alike: win 1, tie 1/2, loss 0
    rating: Estimate  # Bradley-Terry, in Elo points; the mean player of its component has 1500
    component: int  # players who are connected by battles are in one; others cannot be compared
    nash: float  # mean margin against the maximal lottery: 0 for those in it, else below
    lottery: float  # its chance in the maximal lottery
    lottery_rank: int
    ranked_pairs: int
    soft_condorcet: float  # from 0 to 100
    leads: bool  # in the smallest set that beats everybody outside it
    membership: float  # the share of resampled deals in which it leads


class BattleRatings(NamedTuple):
    """The ratings of all players, the best rating first, and what they were computed from."""

    players: list[RatedPlayer]
    seats: dict[str, Estimate | None]  # what the first seat is worth, in points, by game; None: not known
    cycle: tuple[str, ...]  # a shortest cycle among the leaders, each of whom beats the next; () for none
    battles: int
    deals: int
    digest: str  # of the battles
    seed: int


class _Fit(NamedTuple):
    """The fitted parameters: N players' θ, then δ of the games whose seat has an estimate [P]."""

    values: Floats  # [P]
    covariance: Floats  # [P, P]
    seated: Ints  # the games that have a δ


def rate(battles: Battles, seed: int = 0, resamples: int = RESAMPLES) -> BattleRatings:
    """Return the ratings; equal battles in another order give equal ratings, bit for bit."""
    component = components_of_pairs(len(battles.players), battles.first, battles.second)
    fit = _bradley_terry(battles)
    margins, wins = margins_of(battles, np.ones(len(battles.score)))
    lottery = maximal_lottery(margins)
    leading, membership = leaders(margins), _membership(battles, seed, resamples)
    estimates = _relative(fit, component, _degrees(battles))
    weights, number = battles.weights, len(battles.players)
    met = np.bincount(battles.first, weights, number) + np.bincount(battles.second, weights, number)
    won = np.bincount(battles.first, weights * battles.score, number)
    won += np.bincount(battles.second, weights * (1.0 - battles.score), number)
    counts = np.bincount(np.concatenate([battles.first, battles.second]), minlength=number)
    nash, by_lottery, by_pairs = np.nan_to_num(margins) @ lottery, lottery_ranks(margins), ranked_pairs(margins)
    soft = soft_condorcet(wins)
    rated = [
        RatedPlayer(
            player,
            int(counts[i]),
            float(won[i] / met[i]),
            estimates[i],
            int(component[i]),
            float(nash[i]),
            float(lottery[i]),
            int(by_lottery[i]) + 1,
            int(by_pairs[i]) + 1,
            float(soft[i]),
            bool(leading[i]),
            float(membership[i]),
        )
        for i, player in enumerate(battles.players)
    ]
    rated.sort(key=lambda row: (row.component, -row.rating.mean, row.player))
    deals = int(battles.cluster.max()) + 1
    return BattleRatings(
        rated, _seats(fit, battles), _cycle(battles, margins, leading), len(battles.score), deals, battles.digest, seed
    )


def margins_of(battles: Battles, copies: Floats) -> tuple[Floats, Floats]:
    """Return each pair's margin and wins [N, N], averaged over games, when battle r is there ``copies`` [R] times.

    A margin is the share of battles that row won less the share that column did, and nan for pairs that never met. Wins
    are row's share where the two met, and 0 elsewhere.
    """
    number, games = len(battles.players), len(battles.games)
    shape = games, number, number
    cell = (battles.game * number + battles.first) * number + battles.second
    won = np.bincount(cell, copies * battles.score, games * number**2).reshape(shape)
    met = np.bincount(cell, copies, games * number**2).reshape(shape)
    won, met = won + np.swapaxes(met - won, 1, 2), met + np.swapaxes(met, 1, 2)
    played = (met > 0.0).sum(axis=0)
    shares = np.divide(won, met, out=np.zeros(shape), where=met > 0.0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = shares / played
    return share - share.T, np.nan_to_num(share)


def _membership(battles: Battles, seed: int, resamples: int) -> Floats:
    """Return the share of resampled deals in which each player is among the leaders [N]."""
    rng = np.random.default_rng(derive_seed(seed, "deals"))
    deals, found = int(battles.cluster.max()) + 1, np.zeros(len(battles.players))
    for _ in range(resamples):
        drawn = np.bincount(rng.integers(0, deals, deals), minlength=deals).astype(np.float64)
        found += leaders(margins_of(battles, drawn[battles.cluster])[0])
    return np.asarray(found / max(resamples, 1))


def _design(battles: Battles, seated: Ints) -> tuple[Ints, Floats, int]:
    """Return by row the parameters that it is about, and their signs [R, 3], and how many parameters there are."""
    number, column = len(battles.players), np.full(len(battles.games), -1)
    column[seated] = number + np.arange(len(seated))
    seat = column[battles.game]
    places = np.stack([battles.first, battles.second, np.maximum(seat, 0)], axis=1)
    signs = np.stack([np.ones(len(seat)), -np.ones(len(seat)), (seat >= 0).astype(np.float64)], axis=1)
    return places, signs, number + len(seated)


def _bradley_terry(battles: Battles) -> _Fit:
    """Return the maximum of the posterior, with its sandwich covariance. Raises ArithmeticError if it is not found."""
    seated = _seated(battles)
    places, signs, size = _design(battles, seated)
    values, curvature = np.zeros(size), np.eye(size)
    weights, prior = battles.weights, (POINTS / PRIOR) ** 2
    for _ in range(_STEPS):
        expected = 1.0 / (1.0 + np.exp(-(values[places] * signs).sum(axis=1)))
        surplus = weights * (battles.score - expected)
        slope = np.bincount(places.ravel(), (signs * surplus[:, None]).ravel(), size) - prior * values
        curvature = _outer(places, signs, weights * expected * (1.0 - expected), size) + prior * np.eye(size)
        step = np.asarray(np.linalg.solve(curvature, slope), np.float64)
        step *= min(1.0, 2.0 / largest(step))  # far from the maximum a full step may overshoot
        values = values + step
        if largest(step) < 1e-10:
            return _Fit(values, _sandwich(battles, places, signs * surplus[:, None], curvature), seated)
    raise ArithmeticError(
        f"the ratings of {size} players and seats were not found in {_STEPS} steps of Newton's method"
    )


def _outer(places: Ints, signs: Floats, weights: Floats, size: int) -> Floats:
    """Return Σ_r weights_r x_r x_rᵀ, with x_r the row's signs at its places [P, P]."""
    cells = (places[:, :, None] * size + places[:, None, :]).ravel()
    values = (weights[:, None, None] * signs[:, :, None] * signs[:, None, :]).ravel()
    return np.asarray(np.bincount(cells, values, size * size).reshape(size, size))


def _sandwich(battles: Battles, places: Ints, slopes: Floats, curvature: Floats) -> Floats:
    """Return A⁻¹ B A⁻¹, and A⁻¹ itself for players without spread, whose results are all wins or all losses [P, P]."""
    from scipy.sparse import coo_matrix  # takes a fifth of a second to import

    size, clusters = len(curvature), int(battles.cluster.max()) + 1
    rows = np.repeat(battles.cluster, places.shape[1])
    by_cluster = coo_matrix((slopes.ravel(), (rows, places.ravel())), shape=(clusters, size)).tocsr()
    inverse = np.linalg.inv(curvature)
    spread = np.asarray((by_cluster.T @ by_cluster).todense()) * clusters / max(clusters - 1, 1)
    covariance = inverse @ spread @ inverse
    number = len(battles.players)
    won = np.bincount(battles.first, battles.score, number) + np.bincount(battles.second, 1.0 - battles.score, number)
    met = np.bincount(np.concatenate([battles.first, battles.second]), minlength=number)
    sided = np.flatnonzero((won == 0.0) | (won == met))
    covariance[sided, sided] = np.maximum(covariance[sided, sided], inverse[sided, sided])
    return np.asarray(covariance)


def _seated(battles: Battles) -> Ints:
    """Return the games whose seat's worth can be estimated: not where the same players always sit first."""
    every = np.arange(len(battles.games))
    places, signs, size = _design(battles, every)
    values, vectors = np.linalg.eigh(_outer(places, signs, np.ones(len(places)), size))
    unseen = vectors[:, values < _UNSEEN * values.max()]  # directions of the parameters that no battle depends on
    return np.flatnonzero(np.abs(unseen[len(battles.players) :]).max(axis=1, initial=0.0) < _UNSEEN**0.5)


def _degrees(battles: Battles) -> int:
    return max(int(battles.cluster.max()), 1)


def _relative(fit: _Fit, component: Ints, degrees: int) -> list[Estimate]:
    """Return ratings in points with their intervals, relative to the mean of each component [N]."""
    number = len(component)
    members = component[:, None] == component
    contrast = np.eye(number) - members / members.sum(axis=1, keepdims=True)
    values = ANCHORED + POINTS * contrast @ fit.values[:number]
    covariance = contrast @ fit.covariance[:number, :number] @ contrast.T
    halves = student_quantile(degrees) * POINTS * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return [
        Estimate(mean, mean - half, mean + half) for mean, half in zip(values.tolist(), halves.tolist(), strict=True)
    ]


def _seats(fit: _Fit, battles: Battles) -> dict[str, Estimate | None]:
    """Return what the first seat of each game is worth, in points, and None where it cannot be estimated."""
    number = len(battles.players)
    found: dict[str, Estimate | None] = dict.fromkeys(battles.games)
    quantile = student_quantile(_degrees(battles))
    for place, game in enumerate(fit.seated.tolist(), start=number):
        mean, half = POINTS * fit.values[place], quantile * POINTS * max(fit.covariance[place, place], 0.0) ** 0.5
        found[battles.games[game]] = Estimate(float(mean), float(mean - half), float(mean + half))
    return found


def _cycle(battles: Battles, margins: Floats, leading: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return a shortest cycle among the leaders; () where there is none."""
    places = np.flatnonzero(leading)
    names = [battles.players[place] for place in places]
    cycles = find_cycles(names, np.nan_to_num(margins[np.ix_(places, places)]))
    return cycles[0].players if cycles else ()
