"""``league standings``: a run's ratings, results and exploitability, game by game."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from games.registry import make_game
from games.spec import GameSpec, Utility
from league.board import read_metrics
from league.commands.words import number
from league.payoffs import Record
from league.ratings import Standing
from league.runs import Run, open_run

SHOWN = 12  # lines of a table; --json has all of them
MEASURED = {  # metrics below GAME/, and words for them
    "exploitability": "exploitability",
    "mixture_exploitability": "exploitability of the mixture",
    "return": "mean return together",
    "score_against_random": "score against random",
}


class Pair(NamedTuple):
    """What one player made of another in one role."""

    player: str
    opponent: str
    role: str
    record: Record


class GameStandings(NamedTuple):
    """One game's part of the standings."""

    spec: GameSpec
    ratings: list[Standing]  # the best first
    pairs: list[Pair]
    measured: dict[str, list[tuple[int, float]]]  # by name in MEASURED: (iteration, value), oldest first


class Found(NamedTuple):
    """The standings of a run."""

    run: Run
    iterations: int  # done
    games: dict[str, GameStandings]


def run(arguments: argparse.Namespace) -> Found:
    """Return the standings of the named run."""
    return read(open_run(arguments.run))


def read(opened: Run) -> Found:
    """Read a run's files."""
    metrics = list(read_metrics(opened.path))
    games = {game: _standings(opened, game, metrics) for game in opened.config.games}
    return Found(opened, metrics[-1]["iteration"] if metrics else 0, games)


def _standings(opened: Run, game: str, metrics: list[dict[str, Any]]) -> GameStandings:
    payoffs, ratings = opened.payoffs, opened.ratings.standings(game)
    players = [line.player for line in ratings]
    players += sorted((payoffs.live | set(opened.config.evaluation.anchors)) - set(players))
    pairs = [
        Pair(player, opponent, role, record)
        for player in players
        for opponent in players
        for role, record in payoffs.by_role(player, opponent, game).items()
        if player != opponent
    ]
    measured = {
        name: [(line["iteration"], line[f"{game}/{name}"]) for line in metrics if f"{game}/{name}" in line]
        for name in MEASURED
    }
    return GameStandings(make_game(game).spec, ratings, pairs, measured)


def document(found: Found) -> dict[str, Any]:
    """Return the standings as JSON data. What was not computed is null."""
    return {
        "run": str(found.run.path),
        "iterations": found.iterations,
        "snapshots": [snapshot.id for snapshot in found.run.population.all()],
        "games": {
            game: {
                "ratings": [line._asdict() for line in standings.ratings],
                "payoffs": [_pair(pair) for pair in standings.pairs],
                **{
                    name: [{"iteration": at, "value": value} for at, value in points]
                    for name, points in standings.measured.items()
                },
            }
            for game, standings in found.games.items()
        },
    }


def _pair(pair: Pair) -> dict[str, Any]:
    record = pair.record
    return {
        "player": pair.player,
        "opponent": pair.opponent,
        "role": pair.role,
        "matches": record.n,
        "return": record.returns._asdict(),
        "score": record.score._asdict(),
    }


def tell(found: Found, console: Console) -> None:
    """Print the standings as tables."""
    console.print(f"{found.run.path}: {found.iterations} of {found.run.config.iterations} iterations", style="bold")
    newest = found.run.population.all()[-1].id
    for game, standings in found.games.items():
        console.print(f"\n{game}", style="bold")
        together = standings.spec.utility is Utility.IDENTICAL
        for name, points in standings.measured.items():
            if points and not (together and name.startswith("score")):
                console.print(_course(MEASURED[name], points))
        if not together:  # nobody wins a cooperative game, so its ratings tell nothing
            console.print(_rating_table(standings.ratings, newest))
        console.print(_pair_table([pair for pair in standings.pairs if pair.player == newest], together))
    console.print(
        "\nSkill comes from the matches of newly frozen snapshots; `surely above` is skill − 3 × uncertainty.",
        style="dim",
    )


def _rating_table(ratings: list[Standing], newest: str) -> Table:
    """Return the best players and, wherever it stands, the newest snapshot."""
    table = _table("rank", "player", "skill", "uncertainty", "surely above")
    for rank, line in enumerate(ratings, 1):
        if rank <= SHOWN or line.player == newest:
            mark = f"{line.player} (newest)" if line.player == newest else line.player
            table.add_row(str(rank), mark, f"{line.mu:.1f}", f"{line.sigma:.1f}", f"{line.ordinal:.1f}")
    return table


def _course(words: str, points: list[tuple[int, float]]) -> str:
    """Return how a measurement went from the first snapshot to the last."""
    values = [value for _, value in points]
    span = f", between {number(min(values))} and {number(max(values))}" if len(values) > 2 else ""
    return f"{words}: {number(values[0])} → {number(values[-1])} over {len(values)} snapshots{span}"


def _pair_table(pairs: list[Pair], together: bool) -> Table:
    table = _table("newest with" if together else "newest against", "as", "matches", "mean return, 95% interval")
    if not together:
        table.add_column("score")
    for pair in pairs[:SHOWN]:
        returns, score = pair.record.returns, pair.record.score
        span = "" if returns.low is None else f" ({number(returns.low, True)} to {number(returns.high, True)})"
        cells = [pair.opponent, pair.role, f"{pair.record.n:.0f}", f"{number(returns.mean, True)}{span}"]
        table.add_row(*cells, *([] if together else [number(score.mean)]))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
