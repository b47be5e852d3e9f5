"""Results of all matches, kept whole or not: who met whom, an iteration's returns as a histogram, a deal's group.

The store of matches has players, deal and returns of every match of the run; whole records exist only for the kept
ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from games.common.errors import UsageError
from league.lab.look.curves import whole
from league.lab.look.matches import all_rows
from league.lab.look.run_files import RunFiles
from league.lab.standings.payoff_matrix import PayoffMatrix, payoff_matrix
from league.population.results.match_store import STORE_FILE, MatchStore, StoredMatch
from league.theory.statistics import Z_95

MOST_LISTED = 300  # matches of a list
MOST_PLAYERS = 60  # of a matrix: more are thinned evenly over the run
MOST_BINS = 12
MOST_GROUPS = 60


def matrix(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return who met whom in a game: mean margin of row against column, its 95% interval, and how many matches."""
    game = _game(run, query)
    found: PayoffMatrix = run.of_file(
        f"matrix of {game} at {run.done()}", run.path / STORE_FILE, lambda: _read_matrix(run, game)
    )
    order = _order(run, found.players)
    shown = order if len(order) <= MOST_PLAYERS else _thinned(order)
    index = [found.players.index(player) for player in shown]
    errors = found.pooled_error()
    cells = [[_cell(found, errors, row, column) for column in index] for row in index]
    return {"game": game, "games": _games(run), "players": shown, "left_out": len(order) - len(shown), "cells": cells}


def _read_matrix(run: RunFiles, game: str) -> PayoffMatrix:
    with _store(run) as store:
        pairs = store.pairs(game)
    return payoff_matrix(pairs, None, pairs.players)


def _cell(found: PayoffMatrix, errors: Any, row: int, column: int) -> list[float | None] | None:
    """Return margin, half-width of its interval, and matches of a pair; None for one that never met."""
    margin, error = float(found.margin[row, column]), float(errors[row, column])
    if not math.isfinite(margin):
        return None
    return [margin, Z_95 * error if math.isfinite(error) else None, int(found.matches[row, column])]


def pair(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the matches of ``player`` against ``against``: all results by iteration, the newest, and the kept ones."""
    game, both = _game(run, query), (query.get("player", ""), query.get("against", ""))
    with _store(run) as store:
        matches = list(store.matches(game, players=both))
    by_iteration: dict[int, list[float]] = {}
    for match in matches:
        by_iteration.setdefault(match.iteration, []).append(match.returns[match.players.index(both[0])])
    kept = {(row["iteration"], row["index"]) for row in all_rows(run) if row["game"] == game}
    return {
        "game": game,
        "players": list(both),
        "total": len(matches),
        "mean": {"x": list(by_iteration), "y": [sum(gains) / len(gains) for gains in by_iteration.values()]},
        "matches": _listed(reversed(matches), kept),
    }


def iteration_results(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return iteration ``at`` of a game: returns by role as histograms whose bins list their matches, and its groups.

    A group is the matches of one deal: the same start, played by the members of a group or in all seatings.
    """
    game, at = _game(run, query), whole(query, "at")
    with _store(run) as store:
        matches = list(store.matches(game, iteration=at))
    kept = {(row["iteration"], row["index"]) for row in all_rows(run, at)}
    by_deal: dict[int, list[StoredMatch]] = {}
    for match in matches:
        by_deal.setdefault(match.deal_seed, []).append(match)
    deals = sorted(by_deal.values(), key=lambda group: (not any((at, m.index) in kept for m in group), group[0].index))
    return {
        "game": game,
        "games": _games(run),
        "at": at,
        "total": len(matches),
        "histograms": [_histogram(seat, matches, kept) for seat in range(len(matches[0].players) if matches else 0)],
        "groups": [
            {"deal": str(group[0].deal_seed), "size": len(group), "first": [m.returns[0] for m in group]}
            for group in deals[:MOST_GROUPS]
            if len(group) > 1
        ],
        "number_of_groups": sum(len(group) > 1 for group in deals),
    }


def group(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the matches of one ``deal`` of iteration ``at``, side by side."""
    game, at = _game(run, query), whole(query, "at")
    with _store(run) as store:
        matches = [m for m in store.matches(game, iteration=at) if str(m.deal_seed) == query.get("deal")]
    kept = {(row["iteration"], row["index"]) for row in all_rows(run, at)}
    return {"game": game, "at": at, "deal": query.get("deal"), "matches": _listed(matches, kept)}


def _histogram(seat: int, matches: list[StoredMatch], kept: set[tuple[int, int]]) -> dict[str, Any]:
    """Return the returns of a seat in bins: one for each value where there are few, else of equal width."""
    returns = np.array([match.returns[seat] for match in matches])
    values = np.unique(returns)
    if len(values) <= MOST_BINS:
        places, edges = np.searchsorted(values, returns), [(value, value) for value in values.tolist()]
    else:
        cuts = np.linspace(values[0], values[-1], MOST_BINS + 1)
        places = np.clip(np.searchsorted(cuts, returns, side="right") - 1, 0, MOST_BINS - 1)
        edges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    bins = []
    for number, (low, high) in enumerate(edges):
        inside = [match for match, place in zip(matches, places.tolist(), strict=True) if place == number]
        inside.sort(key=lambda match: (match.iteration, match.index) not in kept)
        bins.append({"low": low, "high": high, "count": len(inside), "matches": _listed(inside[:40], kept)})
    return {"role": matches[0].roles[seat], "seat": seat, "bins": bins}


def _listed(matches: Iterable[StoredMatch], kept: set[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return rows of matches, those of which the whole record is kept first."""
    rows = [
        {
            "iteration": match.iteration,
            "index": match.index,
            "players": list(match.players),
            "roles": list(match.roles),
            "returns": list(match.returns),
            "deal": str(match.deal_seed),
            "rule": match.rule,
            "kept": (match.iteration, match.index) in kept,
        }
        for match in matches
    ]
    rows.sort(key=lambda row: not row["kept"])
    return rows[:MOST_LISTED]


def _store(run: RunFiles) -> MatchStore:
    if not (run.path / STORE_FILE).is_file():
        raise UsageError(f"{run.name} has stored no match yet.")
    return MatchStore(run.path / STORE_FILE, reads=True)


def _games(run: RunFiles) -> list[str]:
    with _store(run) as store:
        return store.games()


def _game(run: RunFiles, query: Mapping[str, str]) -> str:
    """Return the game of a query, or the run's first one."""
    games = _games(run)
    game = query.get("game") or next(iter(games), "")
    if game not in games:
        raise UsageError(f"{run.name} has stored no match of {game!r}; it has {', '.join(games) or 'none at all'}.")
    return game


def _order(run: RunFiles, players: Iterable[str]) -> list[str]:
    """Return players as they came into the run: live policies and others first, then snapshots by step."""
    steps = {snapshot.id: snapshot.step for snapshot in run.snapshots()}
    return sorted(players, key=lambda player: (steps.get(player, -1), player))


def _thinned(players: list[str]) -> list[str]:
    places = {round(place) for place in np.linspace(0, len(players) - 1, MOST_PLAYERS).tolist()}
    return [player for number, player in enumerate(players) if number in places]
