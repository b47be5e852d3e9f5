"""The payoff table: results by pair, game and role, with their uncertainty. Matchmaking reads it.

A score compares two seats' returns: win 1, draw 1/2, loss 0. Results between frozen players add up forever.
A live policy changes while its results come in, so a cell with a live player decays: each iteration multiplies
its weights by ``forgetting``. The decay is computed when a cell is read or written, so a large population
costs nothing. The same results in the same order give the same table bit for bit.

Matches of one deal share its luck, so how certain a result is depends on deals (``payoff_cell``). A deal belongs to
one iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.records import Episode
from league.population.results.payoff_cell import PayoffCell
from league.theory.statistics import Estimate, student_quantile, wilson

_sums_of = attrgetter(*(field.name for field in fields(PayoffCell)))  # ten times as fast as ``astuple``


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
    sumsq_return: float  # of deals' sums
    sum_score: float
    iteration: int
    # Over deals, each of n_d matches; None where every match had a deal of its own.
    sumsq_matches: int | None = None  # Σ n_d²
    sum_matches_return: float | None = None  # Σ n_d times the deal's sum of returns
    sumsq_score: float | None = None  # of deals' sums
    sum_matches_score: float | None = None  # as sum_matches_return


class PairRecord(NamedTuple):
    """A player's record against an opponent, over all roles."""

    score: float  # the player's mean score in [0, 1]; 1/2 for a pair that never met
    effective_n: float  # independent matches that would be as certain; 0 for a pair that never met


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """A player's record against an opponent in one role, after decay."""

    n: float  # matches, weighted by what decay leaves of each
    effective_n: float  # independent matches of full weight that would be as certain of the score
    returns: Estimate  # in the game's units; Student's interval over deals, none where all deals are equal
    score: Estimate  # in [0, 1]; Wilson's interval for ``effective_n``, too wide where there are draws


def summarise(episodes: Iterable[Episode], iteration: int) -> list[Result]:
    """Return the sums of a batch, sorted by key; they do not depend on the order of the episodes.

    In each match a seat gives one result against every other player, which averages the score over
    the seats that player has. A seat that had no turn takes the role of its seat in other matches.
    """
    ordered = sorted(episodes, key=lambda episode: episode.request.index)
    roles = {(episode.request.game, turn.seat): turn.role for episode in ordered for turn in episode.turns}
    sums: dict[tuple[str, str, str, str], _Sums] = {}
    known: dict[object, list[tuple[_Sums, float, float]]] = {}  # of matches that ended alike
    for episode in ordered:
        game, players, returns = episode.request.game, episode.request.players, episode.returns
        if (results := known.get((game, players, returns))) is None:
            results = known[game, players, returns] = [
                (
                    sums.setdefault(
                        (player, opponent, game, roles.get((game, seat), f"seat {seat}")), _Sums([0, 0.0, 0.0], {})
                    ),
                    gain,
                    score,
                )
                for seat, (player, gain) in enumerate(zip(players, returns, strict=True))
                for opponent, score in _scores(players, returns, seat).items()
            ]
        deal = episode.request.deal_seed
        for (total, by_deal), gain, score in results:
            of_deal = by_deal.get(deal)
            if of_deal is None:
                of_deal = by_deal[deal] = [0, 0.0, 0.0]
            for numbers in (total, of_deal):
                numbers[0] += 1
                numbers[1] += gain
                numbers[2] += score
    return [_result(key, sums[key], iteration) for key in sorted(sums)]


class _Sums(NamedTuple):
    """Numbers of matches, sums of returns, and sums of scores, of one key."""

    total: list[float]
    by_deal: dict[int, list[float]]


def _result(key: tuple[str, str, str, str], sums: _Sums, iteration: int) -> Result:
    """Return the result of a key, its squares summed in the order of the deals."""
    (n, gain, score), by_deal = sums
    gain2 = matches2 = matches_gain = score2 = matches_score = 0.0
    for deal in sorted(by_deal):
        matches, gains, scores = by_deal[deal]
        gain2 += gains * gains
        matches2 += matches * matches
        matches_gain += matches * gains
        score2 += scores * scores
        matches_score += matches * scores
    return Result(*key, int(n), gain, gain2, score, iteration, int(matches2), matches_gain, score2, matches_score)


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

        Results up to that iteration are ignored, as they belong to other weights.
        """
        self.live = frozenset(live)
        self.forgetting = forgetting
        self.resets = {} if resets is None else resets
        self.iteration = 0  # of the newest result applied
        self._cells: dict[tuple[str, str, str], dict[str, PayoffCell]] = {}  # then by role

    def apply(self, results: Iterable[Result]) -> None:
        """Add results in their order. Raises ValueError for one that is older than the newest, or not finite."""
        for result in results:
            if not all(math.isfinite(value) for value in result if isinstance(value, float)):
                raise ValueError(f"got a result that is not finite: {result}")
            if result.iteration < self.iteration:
                raise ValueError(
                    f"got a result of iteration {result.iteration} after one of {self.iteration}: {result}"
                )
            self.iteration = result.iteration
            if result.iteration <= max(self.resets.get(result.player, -1), self.resets.get(result.opponent, -1)):
                continue
            roles = self._cells.setdefault((result.player, result.opponent, result.game), {})
            cell = self._current(result.player, result.opponent, roles.get(result.role, PayoffCell()))
            roles[result.role] = cell.plus(*result[4:])

    def reset(self, player: str) -> None:
        """Drop a live player's results up to now: its weights are replaced, and the results belong to the old ones."""
        self.resets[player] = self.iteration
        self._cells = {key: cells for key, cells in self._cells.items() if player not in key[:2]}

    def role_records(self, player: str, opponent: str, game: str) -> dict[str, RoleRecord]:
        """Return the records of a pair by the player's role; of self-play when both are the same."""
        cells = self._cells.get((player, opponent, game), {})
        current = {role: self._current(player, opponent, cell) for role, cell in cells.items()}
        return {role: _record(cell) for role, cell in sorted(current.items()) if cell.sumsq_weight > 0.0}

    def pair_record(self, player: str, opponent: str, game: str) -> PairRecord:
        """Return the player's mean score over its roles, all of equal weight, and the matches behind it.

        Deals of one role count as independent of those of another: where a deal is played in every seating, its luck
        cancels, and the score is more certain than that.
        """
        cells = self._cells.get((player, opponent, game), {}).values()
        current = [self._current(player, opponent, cell) for cell in cells] if player != opponent else []
        current = [cell for cell in current if cell.sumsq_weight > 0.0]
        if not current:
            return PairRecord(0.5, 0.0)
        score = math.fsum(cell.sum_score / cell.n for cell in current) / len(current)
        return PairRecord(score, math.fsum(cell.effective_n() for cell in current))

    def matrix(self, players: Sequence[str], game: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean returns and scores of row against column [P, P], NaN for pairs that never met.

        All roles have equal weight. The diagonal is NaN: self-play does not count.
        """
        sums = ("sum_return", "sum_score")
        values = [[[self._mean(a, b, game, name) for b in players] for a in players] for name in sums]
        returns, scores = np.array(values, dtype=float).reshape(2, len(players), len(players))
        return returns, scores

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain data, for people to read; floats survive ``json`` exactly."""
        rows = [
            [*pair, role, *_sums_of(cell)]
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

    def _current(self, player: str, opponent: str, cell: PayoffCell) -> PayoffCell:
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


def _record(cell: PayoffCell) -> RoleRecord:
    """Return the means and intervals of a cell, some of whose weight is left."""
    mean, score, matches = cell.sum_return / cell.n, cell.sum_score / cell.n, cell.effective_n()
    returns = Estimate(mean, None, None)
    if cell.deals > 1.0:
        half = student_quantile(cell.deals - 1.0) * math.sqrt(
            cell.variance(cell.sumsq_return, cell.sum_matches_return, mean)
        )
        returns = Estimate(mean, mean - half, mean + half) if half > 0.0 else returns
    return RoleRecord(cell.n, matches, returns, wilson(score, matches))
