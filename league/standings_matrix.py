"""How all pairs of a game's players fared, as matrices, and how one of them did in each role."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.match_store import Cells, Pairs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEW = 5  # deals; the spread of fewer says nothing
POOLED = 10.0  # deals of a typical pair that each pair's own variance is averaged with


class RoleResult(NamedTuple):
    """What a player made of another in one role."""

    player: str
    opponent: str
    role: str
    matches: int
    returns: float  # mean, in the game's units
    returns_error: float  # standard error, or above it with more than two seats; nan with fewer than five deals
    score: float  # win 1, draw 1/2, loss 0
    score_error: float  # as returns_error


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Row against column; nan where a pair never met."""

    players: tuple[str, ...]  # [N]
    matches: Ints  # [N, N]
    deals: Ints  # [N, N]
    margin: Floats  # (row's mean return - column's) / 2 in the matches of both, in the game's units  # [N, N]
    margin_error: Floats  # clustered by deal; nan with one deal  # [N, N]
    score: Floats  # win 1, draw 1/2, loss 0  # [N, N]
    score_error: Floats  # as margin_error  # [N, N]
    returns: Floats  # row's mean; on the diagonal with itself  # [N, N]
    returns_error: Floats  # the standard error or above it; nan with one deal  # [N, N]

    def careful_error(self) -> Floats:
        """Return errors of the margins that few deals do not make too small, and one deal has too [N, N].

        Two equal deals have no spread, which proves nothing. So ten deals of the mean variance over all deals
        stand beside a pair's own: e² = (d v_own + 10 v_mean) / (d + 10) / d.
        """
        known = np.isfinite(self.margin_error)
        own = np.where(known, self.deals * np.nan_to_num(self.margin_error) ** 2, 0.0)
        weight = np.where(known, self.deals, 0)
        mean = float((own * weight).sum() / weight.sum()) if weight.any() else np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.sqrt((weight * own + POOLED * mean) / (weight + POOLED) / self.deals)
        return np.where(self.deals > 0, error, np.nan)


def payoff_matrix(pairs: Pairs, cells: Cells | None, players: Sequence[str]) -> Matrix:
    """Return the results among ``players``, in their order. Without ``cells`` the mean return is the margin.

    So it is in a zero-sum game of two.
    """
    number, place = len(players), {player: index for index, player in enumerate(players)}
    to = np.array([place.get(player, -1) for player in pairs.players], dtype=np.int64)
    a, b = to[pairs.a], to[pairs.b]
    kept = (a >= 0) & (b >= 0)
    a, b = a[kept], b[kept]

    def floats(values: Floats, mirrored: Floats) -> Floats:
        matrix = np.full((number, number), np.nan)
        matrix[a, b], matrix[b, a] = values[kept], mirrored[kept]
        return matrix

    def counts(values: Ints) -> Ints:
        matrix = np.zeros((number, number), np.int64)
        matrix[a, b] = matrix[b, a] = values[kept]
        return matrix

    margin = floats(pairs.lead / 2.0, -pairs.lead / 2.0)
    margin_error = floats(pairs.lead_error / 2.0, pairs.lead_error / 2.0)
    return Matrix(
        tuple(players),
        counts(pairs.n),
        counts(pairs.deals),
        margin,
        margin_error,
        floats(pairs.score, 1.0 - pairs.score),
        floats(pairs.score_error, pairs.score_error),
        *((margin, margin_error) if cells is None else _returns(cells, place)),
    )


def _returns(cells: Cells, place: Mapping[str, int]) -> tuple[Floats, Floats]:
    """Return mean returns of row in matches with column, and the means of their line-ups' errors [N, N].

    Line-ups share deals, and the mean of their errors is the most that the error of their mean can be.
    """
    number, seats = len(place), cells.lineup.shape[1]
    to = np.array([place.get(player, -1) for player in cells.players], dtype=np.int64)
    lineup = to[cells.lineup]
    total, error, matches = (np.zeros(number * number) for _ in range(3))
    for own, other in permutations(range(seats), 2):
        kept = (lineup[:, own] >= 0) & (lineup[:, other] >= 0)
        key = lineup[kept, own] * number + lineup[kept, other]
        n = cells.n[kept].astype(np.float64)
        for sums, values in ((total, cells.returns), (error, cells.returns_error)):
            sums += np.bincount(key, n * values[kept, own], number * number)
        matches += np.bincount(key, n, number * number)
    with np.errstate(invalid="ignore"):
        return (total / matches).reshape(number, number), (error / matches).reshape(number, number)


def role_results(cells: Cells, roles: Sequence[str], player: str) -> list[RoleResult]:
    """Return what a player made of each other in each role, by opponent and role. ``roles`` are by seat."""
    if player not in cells.players:
        return []
    own = cells.players.index(player)
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}  # line-ups and seats, by opponent and role
    for row, seat in np.argwhere(cells.lineup == own).tolist():
        for other in set(cells.lineup[row].tolist()) - {own}:
            found.setdefault((other, roles[seat]), []).append((row, seat))
    results = []
    for (other, role), where in found.items():
        rows, seats = np.array(where).T
        n = cells.n[rows]
        values = (cells.returns, cells.returns_error, cells.scores, cells.scores_error)
        means = [float(np.average(value[rows, seats], weights=n)) for value in values]
        if cells.deals[rows].sum() < FEW:
            means[1] = means[3] = math.nan
        results.append(RoleResult(player, cells.players[other], role, int(n.sum()), *means))
    return sorted(results, key=lambda result: (result.opponent, result.role))
