"""Matrices of the results of all pairs of a game's players, and one player's results by role."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.population.results.match_store import Cells, Pairs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_DEALS = 5  # for a standard error by role
PRIOR_DEALS = 10.0  # of mean variance, with which each pair's variance is pooled


class PairRoleResult(NamedTuple):
    """A player's results against another in one role."""

    player: str
    opponent: str
    role: str
    matches: int
    returns: float  # mean, in the game's units
    returns_error: float  # standard error, or above it with more than two seats; nan with fewer than five deals
    score: float  # win 1, draw 1/2, loss 0
    score_error: float  # as returns_error


@dataclass(frozen=True, slots=True, eq=False)
class PayoffMatrix:
    """Results of row against column; nan where a pair never met."""

    players: tuple[str, ...]  # [N]
    matches: Ints  # [N, N]
    deals: Ints  # [N, N]
    margin: Floats  # (row's mean return - column's) / 2 in the matches of both, in the game's units  # [N, N]
    margin_error: Floats  # clustered by deal; nan with one deal  # [N, N]
    score: Floats  # win 1, draw 1/2, loss 0  # [N, N]
    score_error: Floats  # as margin_error  # [N, N]
    returns: Floats  # row's mean; on the diagonal, of self-play  # [N, N]
    returns_error: Floats  # the standard error or above it; nan with one deal  # [N, N]

    def pooled_error(self) -> Floats:
        """Return standard errors of the margins that are not too small with few deals, and exist with one [N, N].

        Two equal deals have no spread, which proves nothing. So a pair's variance v over d deals is pooled with
        ten deals of the mean variance over all deals: e² = (d v + 10 v_mean) / (d + 10) / d.
        """
        has_error = np.isfinite(self.margin_error)
        variance = np.where(has_error, self.deals * np.nan_to_num(self.margin_error) ** 2, 0.0)
        weight = np.where(has_error, self.deals, 0)
        mean = float((variance * weight).sum() / weight.sum()) if weight.any() else np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.sqrt((weight * variance + PRIOR_DEALS * mean) / (weight + PRIOR_DEALS) / self.deals)
        return np.where(self.deals > 0, error, np.nan)


def payoff_matrix(pairs: Pairs, cells: Cells | None, players: Sequence[str]) -> PayoffMatrix:
    """Return the results among ``players``, in their order.

    Without ``cells`` the margin stands for the mean return, as in a zero-sum game of two.
    """
    number, rows = len(players), {player: row for row, player in enumerate(players)}
    row_of = np.array([rows.get(player, -1) for player in pairs.players], dtype=np.int64)
    a, b = row_of[pairs.a], row_of[pairs.b]
    chosen = (a >= 0) & (b >= 0)
    there, back = (a * number + b)[chosen], (b * number + a)[chosen]  # places in a flat matrix

    def floats(values: Floats, mirrored: Floats) -> Floats:
        matrix = np.full(number * number, np.nan)
        matrix[there], matrix[back] = values[chosen], mirrored[chosen]
        return matrix.reshape(number, number)

    def counts(values: Ints) -> Ints:
        matrix = np.zeros(number * number, np.int64)
        matrix[there] = matrix[back] = values[chosen]
        return matrix.reshape(number, number)

    margin = floats(pairs.lead / 2.0, -pairs.lead / 2.0)
    margin_error = floats(pairs.lead_error / 2.0, pairs.lead_error / 2.0)
    return PayoffMatrix(
        tuple(players),
        counts(pairs.n),
        counts(pairs.deals),
        margin,
        margin_error,
        floats(pairs.score, 1.0 - pairs.score),
        floats(pairs.score_error, pairs.score_error),
        *((margin, margin_error) if cells is None else _returns(cells, rows)),
    )


def _returns(cells: Cells, rows: Mapping[str, int]) -> tuple[Floats, Floats]:
    """Return mean returns of row in matches with column, and the means of their line-ups' errors [N, N].

    Line-ups share deals, so the error of their mean may be as large as the mean of their errors.
    """
    number, seats = len(rows), cells.lineup.shape[1]
    row_of = np.array([rows.get(player, -1) for player in cells.players], dtype=np.int64)
    lineup = row_of[cells.lineup]
    total, error, matches = (np.zeros(number * number) for _ in range(3))
    for seat, other in permutations(range(seats), 2):
        chosen = (lineup[:, seat] >= 0) & (lineup[:, other] >= 0)
        key = lineup[chosen, seat] * number + lineup[chosen, other]
        n = cells.n[chosen].astype(np.float64)
        for sums, values in ((total, cells.returns), (error, cells.returns_error)):
            sums += np.bincount(key, n * values[chosen, seat], number * number)
        matches += np.bincount(key, n, number * number)
    with np.errstate(invalid="ignore"):
        return (total / matches).reshape(number, number), (error / matches).reshape(number, number)


def role_results(cells: Cells, roles: Sequence[str], player: str) -> list[PairRoleResult]:
    """Return a player's results against each other player in each role, sorted. ``roles`` are by seat."""
    if player not in cells.players:
        return []
    index = cells.players.index(player)
    lineups: dict[tuple[int, str], list[tuple[int, int]]] = {}  # rows and seats, by opponent and role
    for row, seat in np.argwhere(cells.lineup == index).tolist():
        for opponent in set(cells.lineup[row].tolist()) - {index}:
            lineups.setdefault((opponent, roles[seat]), []).append((row, seat))
    results = []
    for (opponent, role), rows_and_seats in lineups.items():
        rows, seats = np.array(rows_and_seats).T
        n = cells.n[rows]
        values = (cells.returns, cells.returns_error, cells.scores, cells.scores_error)
        means = [float(np.average(value[rows, seats], weights=n)) for value in values]
        if cells.deals[rows].sum() < MIN_DEALS:
            means[1] = means[3] = math.nan
        results.append(PairRoleResult(player, cells.players[opponent], role, int(n.sum()), *means))
    return sorted(results, key=lambda result: (result.opponent, result.role))
