"""``league eval``: a player evaluated by a suite of games, or two players compared by it."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from games.common.files import atomic_write
from league.cli.formatting import (
    estimate_to_json,
    format_interval,
    format_number,
    match_progress,
    plain_table,
    print_usage,
)
from league.cli.parser import (
    COUNT,
    PLAYERS,
    SEED,
    Parser,
    add_json_option,
    add_player_options,
    add_until_options,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from league.config.suite import Suite
    from league.lab.comparisons.suite_evaluation import EvaluationPlan, SuiteEvaluation
    from league.lab.comparisons.suite_progress import Progress
    from league.lab.comparisons.suite_results import GameTest, PairingResult

EXAMPLES = (
    "runs/pocket --suite spiral",
    "runs/pocket@main-000120 runs/pocket --suite mars --matches 400",
    "equilibrium --suite my_suite.toml --against random --dry-run",
)
NOTES = PLAYERS
EVALUATIONS = Path("evaluations")
RESULTS = "results.json"  # everything, in one file


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("players", nargs="+", metavar="PLAYER", help="one player, or two to be compared")
    parser.add_argument("--suite", required=True, metavar="S", help="spiral, dilemmas, …, or a .toml file of your own")
    parser.add_argument("--against", nargs="+", metavar="PLAYER", help="opponents (default: the suite's)")
    parser.add_argument(
        "--matches", type=COUNT, metavar="N", help="at least this many a pairing (default: the suite's)"
    )
    add_until_options(parser, most="the suite's")
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes all deals and draws (default: the suite's)")
    parser.add_argument("--run-dir", metavar="DIR", help="where to keep it (default: a new folder under evaluations/)")
    parser.add_argument("--dry-run", action="store_true", help="print what would be played, and stop")
    add_player_options(parser)
    add_json_option(parser)


class SuiteReport(NamedTuple):
    """A finished evaluation."""

    folder: Path
    evaluation: SuiteEvaluation
    results: list[PairingResult]
    tests: list[GameTest]  # of two players; [] for one
    trained_on: dict[str, list[str]]  # held-out games that a player was trained on, by player
    progress: list[Progress]  # by level of difficulty; [] for a suite without levels


def run(arguments: argparse.Namespace) -> SuiteReport:
    """Play the remaining matches; none, if only the cost was asked for."""
    from arena.errors import EngineError
    from league.lab.comparisons.suite_evaluation import SuiteEvaluation, open_evaluation
    from league.lab.comparisons.suite_progress import progress_by_level
    from league.lab.comparisons.suite_results import compare_games, pairing_results
    from league.population.players.engines import Engines
    from league.population.players.settings import PlayerSettings

    plan = _plan(arguments)
    with Engines(PlayerSettings.of(arguments)) as engines:
        evaluation = SuiteEvaluation(plan, engines)
        engines.check_settings([*plan.players, *plan.suite.opponents])
        folder = _folder(arguments.run_dir, evaluation)
        _print_cost(evaluation, folder)
        trained_on = {player: _trained_on(player, plan.suite) for player in plan.players}
        if arguments.dry_run:
            return SuiteReport(folder, evaluation, [], [], trained_on, [])
        with open_evaluation(folder, evaluation) as store:
            done = len(store.indices())
            try:
                with match_progress() as progress:
                    task = progress.add_task(f"playing {plan.name}", total=len(evaluation), completed=done)
                    evaluation.play(store, lambda _: progress.advance(task))
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_how_to_go_on(folder, len(store.indices()))) from None
            except EngineError as error:
                raise EngineError(f"{error}\n{_how_to_go_on(folder, len(store.indices()))}") from error.__cause__
            tests = compare_games(evaluation, store) if len(plan.players) == 2 else []
            results, progress_made = pairing_results(evaluation, store), progress_by_level(evaluation, store)
            report = SuiteReport(folder, evaluation, results, tests, trained_on, progress_made)
        atomic_write(folder / RESULTS, json.dumps(to_json(report), indent=2, allow_nan=False) + "\n")
        return report


def _plan(arguments: argparse.Namespace) -> EvaluationPlan:
    """Return the plan that the options give."""
    from league.config.suite import load_suite
    from league.lab.comparisons.suite_evaluation import EvaluationPlan
    from league.lab.comparisons.until_decided import Until
    from league.population.players.settings import PlayerSettings

    if len(arguments.players) > 2:
        raise UsageError(f"Name one player to evaluate, or two to compare, not {len(arguments.players)}.")
    suite, changes = load_suite(arguments.suite), dict[str, Any]()
    changes |= {"opponents": tuple(arguments.against)} if arguments.against else {}
    changes |= {} if arguments.seed is None else {"seed": arguments.seed}
    if arguments.until is None and (arguments.margin is not None or arguments.at_most is not None):
        raise UsageError("--margin and --at-most limit --until: give that too, for example --until 0.95.")
    most = arguments.matches if arguments.until is None else arguments.at_most or arguments.matches
    changes |= {} if most is None else {"matches": most}
    suite = suite.model_copy(update=changes)
    until = None if arguments.until is None else Until(arguments.until, arguments.margin, suite.matches)
    if until is not None:
        until.check_numbers()
    settings = PlayerSettings.of(arguments)._replace(threads=None)
    return EvaluationPlan(Path(arguments.suite).stem, suite, tuple(arguments.players), settings, until)


def _folder(named: str | None, evaluation: SuiteEvaluation) -> Path:
    """Return the folder of an evaluation: the ``named`` one, or one that depends on the plan, so that it is resumed."""
    words = re.sub(r"[^\w.]+", "-", "-".join([evaluation.plan.name, *evaluation.plan.players])).strip("-.")
    return folder_to_fill(named or str(EVALUATIONS / f"{words[:60]}-{evaluation.identity}"), "--run-dir")


def _print_cost(evaluation: SuiteEvaluation, folder: Path) -> None:
    """Print on stderr how much will be played, before it is."""
    from league.training.monitors.terminal import Terminal

    turns = sum(len(contest.scheduled) * contest.spec.max_turns for contest in evaluation.contests)
    games = len({contest.pairing.game for contest in evaluation.contests})
    console = Terminal(stderr=True, soft_wrap=True)
    console.print(
        f"{evaluation.plan.name}: games {games}, pairings {len(evaluation.contests)}, matches {len(evaluation):,}, "
        f"replies {turns:,} at most (seed {evaluation.plan.suite.seed}). Kept in {folder}.",
        markup=False,
    )


def _print_not_played(report: SuiteReport, console: Console) -> None:
    for item in report.evaluation.skipped:
        console.print(f"Not played: {item.player} in {short_name(item.game)}. {item.reason}", markup=False)


def _how_to_go_on(folder: Path, done: int) -> str:
    where = shlex.quote(str(folder))
    return f"Stopped after {done} matches, which are kept. To go on, repeat the command with --run-dir {where}."


def _trained_on(player: str, suite: Suite) -> list[str]:
    """Return the held-out games that a run has trained on."""
    from league.population.storage.run_dir import Run, find_run

    name = player.partition("@")[0]
    path = None if ":" in name else find_run(name)
    return [] if path is None else [game for game in Run(path).config.games if game in suite.held_out]


def to_json(report: SuiteReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    from league.lab.comparisons.pairings import Skipped

    return {
        "folder": str(report.folder),
        **report.evaluation.record,
        "trained_on_held_out": report.trained_on,
        "results": [_result_to_json(result) for result in report.results],
        "tests": [
            {
                "game": test.game,
                "kind": test.kind,
                **estimate_to_json("difference", test.difference),
                "p": test.p,
                "p_corrected": test.corrected,
                "decided": None if test.decided is None else str(test.decided.winner),
            }
            for test in report.tests
        ],
        "progress": [row._asdict() for row in report.progress],
        "not_played": [Skipped._asdict(item) for item in report.evaluation.skipped],
    }


def _result_to_json(result: PairingResult) -> dict[str, Any]:
    roles = {
        name: {**estimate_to_json("score", role.score), **estimate_to_json("return", role.returns)}
        for name, role in result.by_role.items()
    }
    return {
        **result.pairing._asdict(),
        "matches": result.matches,
        **({"score": None} if result.cooperative else estimate_to_json("score", result.score)),
        **estimate_to_json("return", result.returns),
        "exact_return": result.exact,
        "decided": None if result.decision is None else str(result.decision.winner),
        "by_role": roles,
    }


def print_report(report: SuiteReport, console: Console) -> None:
    """Print the suite, a row for each pairing and role, and the tests of two players."""
    plan = report.evaluation.plan
    if not report.results:
        _print_not_played(report, console)
        return
    title = f"{plan.name}: {' against '.join(plan.players)}"
    console.print(f"{title}{f' – {plan.suite.title}' if plan.suite.title else ''}", style="bold", markup=False)
    console.print(f"Every deal in every seating (seed {plan.suite.seed}). Everything is in {report.folder / RESULTS}.")
    for player, games in report.trained_on.items():
        if games:
            console.print(f"{player} was trained on {', '.join(games)}, which this suite holds out.", markup=False)
    for kind, game in dict.fromkeys((result.pairing.kind, result.pairing.game) for result in report.results):
        console.print(f"\n{short_name(game)}{f' ({kind})' if kind else ''}", style="bold", markup=False)
        console.print(_table([result for result in report.results if result.pairing.game == game], len(plan.players)))
    console.print()
    _print_not_played(report, console)
    _print_progress(report, console)
    _print_tests(report, console)
    print_usage(report.evaluation.engines.usage(), console)


def _table(results: list[PairingResult], players: int) -> Table:
    """Return a game's pairings, each with a row for all seats and one for each role where there are several."""
    table = plain_table("against", "as", "matches", "return", "95% interval", "score", "exact")
    for result in results:
        pairing = result.pairing
        label = f"{pairing.player} – {pairing.opponent}" if players > 1 else pairing.opponent
        exact = format_number(result.exact, signed=True)
        shown = [(label, "all", result.matches, result.returns, result.score, exact)]
        if len(result.by_role) > 1:
            shown += [("", name, role.matches, role.returns, role.score, "") for name, role in result.by_role.items()]
        for first, role_name, matches, returns, points, last in shown:
            bounds = f"{format_number(returns.low, signed=True)} to {format_number(returns.high, signed=True)}"
            mean = format_number(returns.mean, signed=True)
            score = "" if result.cooperative else format_number(points.mean)
            table.add_row(first, role_name, str(matches), mean, bounds, score, last)
    return table


def _print_progress(report: SuiteReport, console: Console) -> None:
    """Print how far each player gets, the easiest level first."""
    if not report.progress:
        return
    console.print("Progress by difficulty: 0 is a game's least return, 100 its greatest; ± is the standard error.")
    table = plain_table("level", "game", *report.evaluation.plan.players)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in report.progress:
        error = "" if row.error is None else f" ± {row.error:.1f}"
        cells.setdefault((row.level, row.game), {})[row.player] = f"{row.percent:.1f}{error}"
    for (level, game), by_player in cells.items():
        shown = [by_player.get(player, "") for player in report.evaluation.plan.players]
        table.add_row(level or "all", short_name(game) if game else "mean", *shown)
    console.print(table)


def _print_tests(report: SuiteReport, console: Console) -> None:
    """Print in which games the two players differ, by one test of all games together."""
    if not report.tests:
        return
    first, second = report.evaluation.plan.players
    until = report.evaluation.plan.until
    how = "p-values are corrected for their number (Holm)"
    if until is not None:
        how = f"all verdicts hold jointly with a confidence of {until.confidence:.4g}, however often one looked"
    console.print(f"\n{first} less {second}, game by game; {how}:", markup=False)
    for test in report.tests:
        shown = (
            "does not show who does better" if test.better is None else f"{(first, second)[test.better]} does better"
        )
        if test.decided is None:
            sentence = f"{format_interval(test.difference, signed=True)}, p {format_number(test.corrected)}"
        else:
            low, high = (format_number(bound, signed=True) for bound in test.difference[1:])
            sentence = f"{format_number(test.difference.mean, signed=True)} (between {low} and {high})"
        console.print(f"  {short_name(test.game)}: {sentence}: {shown}", markup=False)
