"""``league standings``: who is how good in a run or a tournament, how sure that is, and what was measured."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from games.errors import UsageError, unknown_name
from games.registry import make_game
from games.spec import GameSpec, Utility
from league.board import read_metrics
from league.commands.standings_words import document_game, skill_document, tell_exact, tell_game
from league.commands.words import number
from league.match_store import STORE_FILE, MatchStore
from league.ratings import Ratings, Standing
from league.runs import Run, open_run
from league.standings import GameStandings, game_standings
from league.standings_exact import ExactStandings, exact_standings

__all__ = ["Found", "document", "document_game", "read", "run", "tell", "tell_game"]

MEASURED = {  # metrics below GAME/, and words for them
    "exploitability": "exploitability",
    "mixture_exploitability": "exploitability of the mixture",
    "cce_gap": "gap of the joint meta-strategy to a CCE",
    "ce_gap": "gap of the joint meta-strategy to a CE",
    "return": "mean return together",
    "score_against_random": "score against random",
}
TOURNAMENT_ANCHOR = "random"  # if it plays; else the mean player has 1500


class Part(NamedTuple):
    """What is known of one game."""

    spec: GameSpec
    standings: GameStandings | None  # None: its matches were not kept
    online: list[Standing]  # online ratings, the best first
    measured: dict[str, list[tuple[int, float]]]  # by name in MEASURED: (iteration, value), oldest first
    exact: ExactStandings | None = None  # of the snapshots that have tables


class Found(NamedTuple):
    """The standings of a run or of a tournament."""

    path: Path
    run: Run | None  # None: a tournament
    iterations: int  # done
    games: dict[str, Part]
    matrix: bool = False  # whether payoffs are told as a matrix


def run(arguments: argparse.Namespace) -> Found:
    """Return the standings of the named run, or of the tournament in a folder; of one game if it is named."""
    from league.tournament import QUESTION_FILE

    folder = Path(arguments.run).expanduser()
    if (folder / QUESTION_FILE).is_file():
        return _tournament(folder, arguments.game)._replace(matrix=arguments.matrix)
    return read(open_run(arguments.run), arguments.game)._replace(matrix=arguments.matrix)


def read(opened: Run, game: str | None = None) -> Found:
    """Read a run's files. Raises UsageError for a game that it does not have."""
    metrics = list(read_metrics(opened.path))
    games = _chosen(game, list(opened.config.games), opened.path)
    parts = {name: _of_run(opened, name, metrics) for name in games}
    return Found(opened.path, opened, metrics[-1]["iteration"] if metrics else 0, parts)


def _of_run(opened: Run, game: str, metrics: list[dict[str, Any]]) -> Part:
    spec, ratings = make_game(game).spec, opened.ratings
    standings = None
    if (opened.path / STORE_FILE).is_file():
        live = {snapshot.policy for snapshot in opened.population.all()} | set(opened.config.policies)
        with MatchStore(opened.path / STORE_FILE) as store:
            standings = game_standings(
                store, spec, ratings=ratings, anchors=opened.config.evaluation.anchors, live=live
            )
    measured = {
        name: [(line["iteration"], line[f"{game}/{name}"]) for line in metrics if f"{game}/{name}" in line]
        for name in MEASURED
    }
    return Part(spec, standings, ratings.standings(game), measured, exact_standings(opened, spec))


def _tournament(folder: Path, game: str | None) -> Found:
    from league.tournament import read_question

    if not (folder / STORE_FILE).is_file():
        raise UsageError(f"No match of the tournament in {folder} has been played yet: it has no {STORE_FILE}.")
    spec = make_game(read_question(folder).game).spec
    _chosen(game, [spec.name], folder)
    with MatchStore(folder / STORE_FILE) as store:
        standings = game_standings(store, spec, ratings=Ratings(), anchors=(TOURNAMENT_ANCHOR,))
    return Found(folder, None, 0, {spec.name: Part(spec, standings, [], {})})


def _chosen(game: str | None, games: list[str], path: Path) -> list[str]:
    if game is None:
        return games
    if game not in games:
        raise unknown_name(f"game of {path}", game, games)
    return [game]


def document(found: Found) -> dict[str, Any]:
    """Return the standings as JSON data. What was not computed is null."""
    games = {game: _document_part(part) for game, part in found.games.items()}
    if found.run is None:
        return {"tournament": str(found.path), "games": games}
    return {
        "run": str(found.path),
        "iterations": found.iterations,
        "snapshots": [snapshot.id for snapshot in found.run.population.all()],
        "games": games,
    }


def _document_part(part: Part) -> dict[str, Any]:
    ratings = [
        {"player": line.player, **(skill_document((line.mu, line.sigma)) or {}), "ordinal": line.ordinal}
        for line in part.online
    ]
    measured = {
        name: [{"iteration": at, "value": value} for at, value in points] for name, points in part.measured.items()
    }
    exact = {} if part.exact is None else {"exact": part.exact.document()}
    return {
        "ratings": ratings,
        **measured,
        **exact,
        **({} if part.standings is None else document_game(part.standings)),
    }


def tell(found: Found, console: Console) -> None:
    """Print the standings: conclusions first, then tables."""
    newest = None
    if found.run is not None:
        newest = found.run.population.all()[-1].id
        console.print(f"{found.path}: {found.iterations} of {found.run.config.iterations} iterations", style="bold")
    else:
        console.print(f"{found.path}: a tournament", style="bold")
    for game, part in found.games.items():
        console.print(f"\n{game}", style="bold")
        for name, points in part.measured.items():
            if points and not (part.spec.utility is Utility.IDENTICAL and name.startswith("score")):
                console.print(_course(MEASURED[name], points))
        if part.exact is not None:
            tell_exact(part.exact, console)
        if part.standings is None:
            console.print(
                f"{found.path} was trained before matches were kept (it has no {STORE_FILE}), so there is no ranking. "
                "Play its snapshots against each other: league tournament RUN@SNAPSHOT ... --game GAME",
                markup=False,
            )
        else:
            tell_game(part.standings, console, newest, found.matrix)
    console.print("\nElo counts deals won; ± is 95%. How it is measured: docs/league.md.", style="dim")


def _course(words: str, points: list[tuple[int, float]]) -> str:
    """Return how a measurement went from the first snapshot to the last."""
    values = [value for _, value in points]
    span = f", between {number(min(values))} and {number(max(values))}" if len(values) > 2 else ""
    return f"{words}: {number(values[0])} → {number(values[-1])} over {len(values)} snapshots{span}"
