"""``league standings``: the ranking of a run or a tournament with its uncertainty, and the measurements."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import full_name, short_name
from games.common.errors import UsageError, unknown_name
from league.cli.formatting import format_number
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

    from games.spec import GameSpec
    from league.lab.standings.exact_standings import ExactStandings
    from league.lab.standings.standings import GameStandings
    from league.lab.standings.teamwork import Teamwork
    from league.population.results.ratings import PlayerRating
    from league.population.storage.run_dir import Run

EXAMPLES = ("runs/pocket", "runs/pocket --game kuhn_poker --matrix")
MEASURED = {  # metrics below GAME/, and how they are printed
    "exploitability": "exploitability",
    "mixture_exploitability": "exploitability of the mixture",
    "distilled_exploitability": "exploitability of the distilled model",
    "cce_gap": "gap of the joint meta-strategy to a CCE",
    "ce_gap": "gap to a CE, of the joint meta-strategy if there is one",
    "return": "mean return together",
    "distilled_return": "mean return together of the distilled model",
    "score_against_random": "score against random",
}
TOURNAMENT_ANCHOR = "random"  # has Elo 1500 if it plays; otherwise the mean player has


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("run", metavar="RUN|DIR", help="a run, or the folder of a tournament")
    parser.add_argument("--game", metavar="GAME", help="only this game")
    parser.add_argument("--matrix", action="store_true", help="print the payoffs of the first players as a matrix")
    add_json_option(parser)


class GameReport(NamedTuple):
    """The standings and measurements of one game."""

    spec: GameSpec
    standings: GameStandings | None  # None: the run has no match store
    online: list[PlayerRating]  # online ratings, the best first
    measured: dict[str, list[tuple[int, float]]]  # by name in MEASURED: (iteration, value), oldest first
    exact: ExactStandings | None = None  # of the snapshots that have tables
    teamwork: Sequence[Teamwork] = ()  # of main snapshots with partners that are held out, oldest first


class StandingsReport(NamedTuple):
    """The standings of a run or of a tournament."""

    path: Path
    run: Run | None  # None: a tournament
    iterations: int  # done
    games: dict[str, GameReport]
    percentiles: Mapping[int, list[tuple[int, float]]] = {}  # of normalised scores over games, where they are judged
    matrix: bool = False  # print the payoffs as a matrix too


def run(arguments: argparse.Namespace) -> StandingsReport:
    """Return the standings of the named run, or of the tournament in a folder; of one game if it is named."""
    from league.population.storage.run_dir import PLAN_FILE, open_run

    folder = Path(arguments.run).expanduser()
    if (folder / PLAN_FILE).is_file():
        return _tournament(folder, arguments.game)._replace(matrix=arguments.matrix)
    return load_report(open_run(arguments.run), arguments.game)._replace(matrix=arguments.matrix)


def load_report(run: Run, game: str | None = None) -> StandingsReport:
    """Read a run's files. Raises UsageError for a game that it does not have."""
    from league.training.board.metrics_log import read_metrics

    metrics = list(read_metrics(run.path))
    names = _selected(game, list(run.config.games), run.path)
    games = {name: _game_report(run, name, metrics) for name in names}
    return StandingsReport(run.path, run, metrics[-1]["iteration"] if metrics else 0, games, _percentiles(metrics))


def _percentiles(metrics: list[dict[str, Any]]) -> dict[int, list[tuple[int, float]]]:
    """Return the percentiles over games, each as it was measured, oldest first; none where games are not judged."""
    from league.theory.statistics import PERCENTILES

    names = {percentile: f"curriculum/percentile_{percentile}" for percentile in PERCENTILES}
    curves = {p: [(line["iteration"], line[name]) for line in metrics if name in line] for p, name in names.items()}
    return {percentile: points for percentile, points in curves.items() if points}


def _game_report(run: Run, game: str, metrics: list[dict[str, Any]]) -> GameReport:
    """Return the standings and measurements of one of a run's games."""
    from games.registry import make_game
    from league.lab.standings.exact_standings import exact_standings
    from league.lab.standings.standings import game_standings, left_out
    from league.lab.standings.teamwork import run_teamwork
    from league.population.results.match_store import STORE_FILE, MatchStore

    spec, ratings = make_game(game).spec, run.ratings
    standings = None
    if (run.path / STORE_FILE).is_file():
        anchors, live = run.config.evaluation.anchors, left_out(run.config, run.population.all(), spec)
        with MatchStore(run.path / STORE_FILE, reads=True) as store:
            standings = game_standings(store, spec, ratings=ratings, anchors=anchors, live=live)
    measured = {
        name: [(line["iteration"], line[f"{game}/{name}"]) for line in metrics if f"{game}/{name}" in line]
        for name in MEASURED
    }
    teamwork = run_teamwork(run, spec, None if standings is None else standings.matrix)
    return GameReport(spec, standings, ratings.ranking(game), measured, exact_standings(run, spec), teamwork)


def _tournament(folder: Path, game: str | None) -> StandingsReport:
    """Return the standings of the tournament in a folder."""
    from games.registry import make_game
    from league.lab.standings.standings import game_standings
    from league.population.evaluation.tournament_plan import load_plan
    from league.population.results.match_store import STORE_FILE, MatchStore
    from league.population.results.ratings import Ratings

    if not (folder / STORE_FILE).is_file():
        raise UsageError(f"No match of the tournament in {folder} has been played yet: it has no {STORE_FILE}.")
    spec = make_game(load_plan(folder).game).spec
    _selected(game, [spec.name], folder)
    with MatchStore(folder / STORE_FILE, reads=True) as store:
        standings = game_standings(store, spec, ratings=Ratings(), anchors=(TOURNAMENT_ANCHOR,))
    return StandingsReport(folder, None, 0, {spec.name: GameReport(spec, standings, [], {})})


def _selected(game: str | None, games: list[str], path: Path) -> list[str]:
    """Return only the named game, or all games if none is named. Raises UsageError for an unknown game."""
    if game is None:
        return games
    game = full_name(game)
    if game not in games:
        raise unknown_name(f"game of {path}", game, games)
    return [game]


def to_json(report: StandingsReport) -> dict[str, Any]:
    """Return the standings as JSON data. Values that were not computed are null."""
    games = {name: _game_report_to_json(game) for name, game in report.games.items()}
    if report.run is None:
        return {"tournament": str(report.path), "games": games}
    return {
        "run": str(report.path),
        "iterations": report.iterations,
        "snapshots": [snapshot.id for snapshot in report.run.population.all()],
        "percentiles": {
            str(percentile): [{"iteration": iteration, "value": value} for iteration, value in points]
            for percentile, points in report.percentiles.items()
        },
        "lineage": {s.id: {"parents": list(s.parents), "how": s.how} for s in report.run.population.all()},
        "games": games,
    }


def _game_report_to_json(game: GameReport) -> dict[str, Any]:
    from league.cli.measuring.standings_report import game_to_json, skill_to_json

    ratings = [
        {"player": line.player, **(skill_to_json((line.mu, line.sigma)) or {}), "ordinal": line.ordinal}
        for line in game.online
    ]
    measured = {
        name: [{"iteration": iteration, "value": value} for iteration, value in points]
        for name, points in game.measured.items()
    }
    exact = {} if game.exact is None else {"exact": game.exact.document()}
    return {
        "ratings": ratings,
        **measured,
        **exact,
        **({"ad_hoc_teamwork": [line.document() for line in game.teamwork]} if game.teamwork else {}),
        **({} if game.standings is None else game_to_json(game.standings)),
    }


def print_report(report: StandingsReport, console: Console) -> None:
    """Print the standings of each game: measurements and conclusions first, then tables."""
    from league.cli.measuring.standings_report import print_game
    from league.population.results.match_store import STORE_FILE

    newest = None
    if report.run is not None:
        newest = report.run.population.all()[-1].id
        _print_run(report.run, report.iterations, console)
    else:
        console.print(f"{report.path}: a tournament", style="bold")
    if report.percentiles:
        shown = ", ".join(f"{p}th {_format_change(points)}" for p, points in report.percentiles.items())
        console.print(f"share of the best score so far, percentiles over games: {shown}", markup=False)
    for name, game in report.games.items():
        console.print(f"\n{short_name(name)}", style="bold")
        _print_measured(game, console)
        if game.standings is None:
            console.print(
                f"{report.path} was trained before matches were kept (it has no {STORE_FILE}), so there is no ranking. "
                "Play its snapshots against each other: league tournament RUN@SNAPSHOT ... --game GAME",
                markup=False,
            )
        else:
            print_game(game.standings, console, newest, report.matrix, game.exact)
    console.print("\nElo counts deals won; ± is 95%. How it is measured: league show docs league", style="dim")


def _print_run(run: Run, iterations: int, console: Console) -> None:
    """Print how far a run is, and the snapshots that came to be otherwise than by training."""
    from league.population.storage.population import HOW, parents_of

    console.print(f"{run.path}: {iterations} of {run.config.iterations} iterations", style="bold")
    for snapshot in run.population.all():
        if snapshot.how not in HOW.values() and snapshot.parents:
            console.print(f"{snapshot.id}: {snapshot.how}; from {parents_of(snapshot)}", markup=False)


def _print_measured(game: GameReport, console: Console) -> None:
    """Print the measurements in one game."""
    from league.cli.measuring.standings_report import describe_teamwork, print_exact
    from league.population.evaluation.welfare import common_interest

    for metric, points in game.measured.items():
        if points and not (common_interest(game.spec) and metric.startswith("score")):
            console.print(_format_curve(MEASURED[metric], points))
    if game.exact is not None:
        print_exact(game.exact, console)
    if game.teamwork:
        console.print(describe_teamwork(game.teamwork), markup=False)


def _format_curve(title: str, points: list[tuple[int, float]]) -> str:
    """Return a measurement's first and last value, and its range in between."""
    values = [value for _, value in points]
    span = f", between {format_number(min(values))} and {format_number(max(values))}" if len(values) > 2 else ""
    return f"{title}: {_format_change(points)} over {len(values)} snapshots{span}"


def _format_change(points: list[tuple[int, float]]) -> str:
    """Return a measurement's first and last value."""
    return f"{format_number(points[0][1])} → {format_number(points[-1][1])}"
