"""The payoff table: results by pair, game and role, with their uncertainty. Matchmaking reads it.

A score compares two seats' returns: win 1, draw 1/2, loss 0. Results between frozen players add up for ever.
A live policy changes while its results come in, so a cell with a live player decays: each iteration multiplies
its weights by ``forgetting``. The decay is computed when a cell is read or written, so a large population
costs nothing. The same results in the same order give the same table bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arena.records import Episode
from league.results.statistics import Z_95, Estimate, wilson


class Result(NamedTuple):
    """One player's results against one opponent in one role during one iteration: sums over ``n`` matches.

    ``player == opponent`` is self-play: it counts for the role, never for a pair.
    """

    player: str
    opponent: str
    game: str
    role: str
    n: int
    sum_return: float  # in the game's units
    sumsq_return: float
    sum_score: float
    iteration: int


class PairRecord(NamedTuple):
    """A player's record against an opponent, over all roles."""

    score: float  # the player's mean score in [0, 1]; 1/2 for a pair that never met
    effective_n: float  # matches of full weight that would be as certain; 0 for a pair that never met


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """A player's record against an opponent in one role, after decay."""

    n: float  # matches, weighted by what decay leaves of each
    effective_n: float  # matches of full weight that would be as certain (Kish: (Σw)² / Σw²)
    returns: Estimate  # in the game's units; normal interval
    score: Estimate  # in [0, 1]; Wilson's interval, too wide where there are draws


@dataclass(slots=True)
class _Cell:
    """Weighted sums as of ``iteration``."""

    n: float = 0.0
    sum_return: float = 0.0
    sumsq_return: float = 0.0
    sum_score: float = 0.0
    sumsq_weight: float = 0.0
    iteration: int = 0

    def decayed(self, keep: float) -> _Cell:
        """Return the sums after each match's weight is multiplied by ``keep``."""
        return _Cell(
            self.n * keep,
            self.sum_return * keep,
            self.sumsq_return * keep,
            self.sum_score * keep,
            self.sumsq_weight * keep * keep,
            self.iteration,
        )


def summarise(episodes: Iterable[Episode], iteration: int) -> list[Result]:
    """Return the sums of a batch, sorted by key; they do not depend on the order of the episodes.

    In each match a seat gives one result against every other player, which averages the score over
    the seats that player has. A seat that had no turn takes the role of its seat in other matches.
    """
    ordered = sorted(episodes, key=lambda episode: episode.request.index)
    roles = {(episode.request.game, turn.seat): turn.role for episode in ordered for turn in episode.turns}
    sums: dict[tuple[str, str, str, str], list[float]] = {}
    for episode in ordered:
        game, players = episode.request.game, episode.request.players
        for seat, player in enumerate(players):
            role, gain = roles.get((game, seat), f"seat {seat}"), episode.returns[seat]
            for opponent, score in _scores(players, episode.returns, seat).items():
                total = sums.setdefault((player, opponent, game, role), [0, 0.0, 0.0, 0.0])
                for column, value in enumerate((1, gain, gain * gain, score)):
                    total[column] += value
    return [
        Result(*key, int(n), gain, gain2, score, iteration) for key, (n, gain, gain2, score) in sorted(sums.items())
    ]


def _scores(players: Sequence[str], returns: Sequence[float], seat: int) -> dict[str, float]:
    """Return the score of ``seat`` against each player of the other seats, the mean over its seats."""
    scores: dict[str, list[float]] = {}
    for other, opponent in enumerate(players):
        if other != seat:
            won = returns[seat] > returns[other]
            scores.setdefault(opponent, []).append(1.0 if won else 0.5 * (returns[seat] == returns[other]))
    return {opponent: math.fsum(values) / len(values) for opponent, values in scores.items()}


class PayoffTable:
    """Results by (player, opponent, game, role). ``live`` names the players whose weights change."""

    def __init__(self, live: Iterable[str] = (), forgetting: float = 1.0, resets: dict[str, int] | None = None) -> None:
        """Make an empty table; ``resets`` holds the iteration after which each live player was reset, and is updated.

        Results up to that iteration are ignored, as they were those of other weights.
        """
        self.live = frozenset(live)
        self.forgetting = forgetting
        self.resets = {} if resets is None else resets
        self.iteration = 0  # of the newest result applied
        self._cells: dict[tuple[str, str, str], dict[str, _Cell]] = {}  # then by role

    def apply(self, results: Iterable[Result]) -> None:
        """Add results in their order. Raises ValueError for a result older than the newest applied."""
        for result in results:
            if result.iteration < self.iteration:
                raise ValueError(
                    f"got a result of iteration {result.iteration} after one of {self.iteration}: {result}"
                )
            self.iteration = result.iteration
            if result.iteration <= max(self.resets.get(result.player, -1), self.resets.get(result.opponent, -1)):
                continue
            roles = self._cells.setdefault((result.player, result.opponent, result.game), {})
            cell = self._current(result.player, result.opponent, roles.get(result.role, _Cell()))
            roles[result.role] = _Cell(
                cell.n + result.n,
                cell.sum_return + result.sum_return,
                cell.sumsq_return + result.sumsq_return,
                cell.sum_score + result.sum_score,
                cell.sumsq_weight + result.n,
                result.iteration,
            )

    def reset(self, player: str) -> None:
        """Drop a live player's results up to now: its weights are replaced, and those were results of the old ones."""
        self.resets[player] = self.iteration
        self._cells = {key: cells for key, cells in self._cells.items() if player not in key[:2]}

    def role_records(self, player: str, opponent: str, game: str) -> dict[str, RoleRecord]:
        """Return the records of a pair by the player's role; of self-play when both are the same."""
        cells = self._cells.get((player, opponent, game), {})
        current = {role: self._current(player, opponent, cell) for role, cell in cells.items()}
        return {role: _record(cell) for role, cell in sorted(current.items()) if cell.sumsq_weight > 0.0}

    def pair_record(self, player: str, opponent: str, game: str) -> PairRecord:
        """Return the player's mean score over its roles, all of equal weight, and the matches behind it."""
        cells = self._cells.get((player, opponent, game), {}).values()
        current = [self._current(player, opponent, cell) for cell in cells] if player != opponent else []
        current = [cell for cell in current if cell.sumsq_weight > 0.0]
        if not current:
            return PairRecord(0.5, 0.0)
        score = math.fsum(cell.sum_score / cell.n for cell in current) / len(current)
        return PairRecord(score, math.fsum(cell.n * cell.n / cell.sumsq_weight for cell in current))

    def matrix(self, players: Sequence[str], game: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean returns and scores of row against column [P, P], NaN for pairs that never met.

        All roles have equal weight. The diagonal is NaN: self-play is no meeting.
        """
        sums = ("sum_return", "sum_score")
        values = [[[self._mean(a, b, game, name) for b in players] for a in players] for name in sums]
        returns, scores = np.array(values, dtype=float).reshape(2, len(players), len(players))
        return returns, scores

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain data; floats survive ``json`` exactly."""
        rows = [
            [*pair, role, cell.n, cell.sum_return, cell.sumsq_return, cell.sum_score, cell.sumsq_weight, cell.iteration]
            for pair, roles in sorted(self._cells.items())
            for role, cell in sorted(roles.items())
        ]
        return {
            "live": sorted(self.live),
            "forgetting": self.forgetting,
            "resets": self.resets,
            "iteration": self.iteration,
            "cells": rows,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the table from the data of ``to_json``."""
        table = cls(data["live"], data["forgetting"], data.get("resets"))
        table.iteration = data["iteration"]
        for player, opponent, game, role, *sums in data["cells"]:
            table._cells.setdefault((player, opponent, game), {})[role] = _Cell(*sums)
        return table

    def _current(self, player: str, opponent: str, cell: _Cell) -> _Cell:
        """Return a cell as of the table's iteration."""
        age = self.iteration - cell.iteration
        if age and (player in self.live or opponent in self.live):
            return cell.decayed(self.forgetting**age)
        return cell

    def _mean(self, player: str, opponent: str, game: str, name: str) -> float | None:
        """Return a mean per match over the roles of a pair; None for a player against itself or a pair that never met.

        Decay scales sum and count alike, so it cancels.
        """
        if player == opponent:
            return None
        cells = self._cells.get((player, opponent, game), {}).values()
        means = [getattr(cell, name) / cell.n for cell in cells]
        return math.fsum(means) / len(means) if means else None


def _record(cell: _Cell) -> RoleRecord:
    """Return the means and intervals of a cell, some of whose weight is left."""
    effective = cell.n * cell.n / cell.sumsq_weight
    mean, score = cell.sum_return / cell.n, cell.sum_score / cell.n
    returns = Estimate(mean, None, None)
    if effective > 1.0:
        variance = max(cell.sumsq_return / cell.n - mean * mean, 0.0) * effective / (effective - 1.0)
        half = Z_95 * math.sqrt(variance / effective)
        returns = Estimate(mean, mean - half, mean + half)
    return RoleRecord(cell.n, effective, returns, wilson(score, effective))
