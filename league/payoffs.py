"""Who beats whom, by game and role, with uncertainty: the one thing that the next draw reads.

A score compares two seats' returns: win 1, draw 1/2, loss 0. A frozen pair's results add up for ever.
A live policy changes while its results come in, so a cell with a live player forgets: one iteration
later its counts weigh ``forgetting`` as much. The decay is worked out when a cell is touched, so a
large population costs nothing. The same results in the same order give the same table bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arena.records import Episode

_Z = 1.959963984540054  # the normal distribution's 97.5 % quantile


class Result(NamedTuple):
    """What one player made of one opponent in one role during one iteration: sums over ``n`` matches.

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


class Known(NamedTuple):
    """What is known of a pair."""

    score: float  # the first one's mean score in [0, 1]; 1/2 for a pair that never met
    matches: float  # of full weight that would be as certain; 0 for a pair that never met


class Estimate(NamedTuple):
    """A mean with its 95 % interval; the bounds are None where they cannot be computed."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one (player, opponent, game, role), after forgetting."""

    n: float  # matches, each weighed by what is kept of it
    effective_n: float  # matches of full weight that would be as certain (Kish: (Σw)² / Σw²)
    returns: Estimate  # in the game's units; normal interval
    score: Estimate  # in [0, 1]; Wilson's interval, on the safe side where there are draws


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
                for number, value in enumerate((1, gain, gain * gain, score)):
                    total[number] += value
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

    def __init__(
        self, live: Iterable[str] = (), forgetting: float = 1.0, begun: Mapping[str, int] | None = None
    ) -> None:
        """``begun`` says after which iteration a live player began anew: older results were not its own."""
        self.live = frozenset(live)
        self.forgetting = forgetting
        self.begun = dict(begun or {})
        self.iteration = 0  # the newest that was applied
        self._cells: dict[tuple[str, str, str], dict[str, _Cell]] = {}  # then by role

    def apply(self, results: Iterable[Result]) -> None:
        """Fold results in, in their order. Raises ValueError for results older than the newest applied."""
        for result in results:
            if result.iteration < self.iteration:
                raise ValueError(
                    f"got a result of iteration {result.iteration} after one of {self.iteration}: {result}"
                )
            self.iteration = result.iteration
            if result.iteration <= max(self.begun.get(result.player, -1), self.begun.get(result.opponent, -1)):
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

    def begin_anew(self, player: str) -> None:
        """Forget a live player's results up to now: they were not those of the weights that it goes on with."""
        self.begun[player] = self.iteration
        self._cells = {key: cells for key, cells in self._cells.items() if player not in key[:2]}

    def by_role(self, player: str, opponent: str, game: str) -> dict[str, Record]:
        """Return the records of a pair by the player's role; of self-play when both are the same."""
        cells = self._cells.get((player, opponent, game), {})
        current = {role: self._current(player, opponent, cell) for role, cell in cells.items()}
        return {role: _record(cell) for role, cell in sorted(current.items()) if cell.sumsq_weight > 0.0}

    def known(self, player: str, opponent: str, game: str) -> Known:
        """Return the player's mean score over its roles, each counting alike, and how much it rests on."""
        cells = self._cells.get((player, opponent, game), {}).values()
        current = [self._current(player, opponent, cell) for cell in cells] if player != opponent else []
        seen = [cell for cell in current if cell.sumsq_weight > 0.0]
        if not seen:
            return Known(0.5, 0.0)
        score = math.fsum(cell.sum_score / cell.n for cell in seen) / len(seen)
        return Known(score, math.fsum(cell.n * cell.n / cell.sumsq_weight for cell in seen))

    def matrix(self, players: Sequence[str], game: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean returns and scores of row against column [P, P], NaN for pairs that never met.

        Roles count alike. The diagonal is NaN: nobody meets itself.
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
            "begun": self.begun,
            "iteration": self.iteration,
            "cells": rows,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the table that ``to_json`` told."""
        table = cls(data["live"], data["forgetting"], data.get("begun"))
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
        """Return a mean per match over the roles of a pair; None for a player against itself or an unseen pair.

        Forgetting scales sum and count alike, so it need not be worked out here.
        """
        if player == opponent:
            return None
        cells = self._cells.get((player, opponent, game), {}).values()
        means = [getattr(cell, name) / cell.n for cell in cells]
        return math.fsum(means) / len(means) if means else None


def _record(cell: _Cell) -> Record:
    """Return means and intervals of a cell that has not been forgotten altogether."""
    effective = cell.n * cell.n / cell.sumsq_weight
    mean, score = cell.sum_return / cell.n, cell.sum_score / cell.n
    returns = Estimate(mean, None, None)
    if effective > 1.0:
        variance = max(cell.sumsq_return / cell.n - mean * mean, 0.0) * effective / (effective - 1.0)
        half = _Z * math.sqrt(variance / effective)
        returns = Estimate(mean, mean - half, mean + half)
    return Record(cell.n, effective, returns, wilson(score, effective))


def wilson(share: float, n: float) -> Estimate:
    """Return Wilson's 95 % score interval for a share of ``n`` > 0 trials (Wilson 1927)."""
    z2 = _Z * _Z / n
    centre = (share + z2 / 2.0) / (1.0 + z2)
    half = _Z / (1.0 + z2) * math.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n))
    return Estimate(share, max(centre - half, 0.0), min(centre + half, 1.0))
