"""``league sweep``: runs of one preset under several seeds and settings, and one table that compares them."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from games.common.files import atomic_write
from games.common.text import plain
from league.cli.formatting import estimate_to_json, format_interval, format_number
from league.cli.parser import COUNT, Parser, whole_number
from league.cli.plugins import NAMES_RUNS

if TYPE_CHECKING:
    from rich.console import Console

    from league.lab.reports.differences import RunComparison
    from league.lab.sweeps.plan import Sweep

EXAMPLES = (
    "pocket --seeds 0-4 --set credit.rule=rae,mars",
    "pocket --seeds 0-2 --set optimizer.learning_rate=1e-4,5e-4 --set iterations=50 --run-dir sweeps/rates",
    "pocket --condition plain credit.rule=grpo --condition mine credit.rule=rae optimizer.learning_rate=5e-4",
    "pocket --workers 2 --ask 'exploitability RUN@mixture --game kuhn_poker'",
    "team --tokens 150000 --set iterations=1000",
    "pocket --seeds 0-9 --cluster local",
    "--resume --run-dir sweeps/rates",
    "pocket --seeds 3-9 --resume --run-dir sweeps/pocket",
)
SWEEPS = Path("sweeps")  # the folder of new sweeps
TABLE_FILE = "table.json"
LEFT_OUT = ("/score/", "tokens_per_second")  # figures that are not compared: not measured at the end, or of speed


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("config", nargs="?", metavar="PRESET|FILE.toml", help="what to train")
    parser.add_argument("--seeds", metavar="N-M", help="0-4, or 0,2,7 (default: 0-4)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="change a setting, or compare several values of it; several such settings give every combination",
    )
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        nargs="+",
        metavar=("NAME", "KEY=VALUE"),
        help="compare a named group of settings; may be given several times, with any settings",
    )
    _add_ends(parser)
    _add_places(parser)


def _add_places(parser: Parser) -> None:
    """Add the options for where runs are kept and where they are trained."""
    parser.add_argument("--run-dir", metavar="DIR", help="where to keep the runs (default: a new folder under sweeps/)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the sweep in --run-dir, with further runs if given, and print its table",
    )
    parser.add_argument(
        "--workers",
        type=whole_number(1, 1024),
        default=0,
        metavar="N",
        help="train N runs side by side on this machine, each in its own process with its share of the cores",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="train runs side by side on a Ray cluster: HOST:PORT, auto (the one of this machine), or local (here)",
    )


def _add_ends(parser: Parser) -> None:
    """Add the options for when a run ends, and for the questions to answer about it then."""
    parser.add_argument(
        "--tokens",
        type=COUNT,
        metavar="N",
        help="end each run at its first snapshot after N generated tokens, and compare them there; its iterations are "
        "then an upper limit",
    )
    parser.add_argument(
        "--ask",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a league command to run on each trained run, with RUN in its place; its figures join the table",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train the missing runs; return 0 when all are done, 130 if stopped, 1 if a run failed."""
    from league.lab.sweeps.plan import how_to_resume
    from league.lab.sweeps.whole import run_sweep
    from league.population.players.machine import require_ray
    from league.training.monitors.terminal import Terminal

    console = Terminal(soft_wrap=True)
    if arguments.cluster and arguments.workers:
        raise UsageError("--workers trains on this machine and --cluster on a Ray cluster: name one of them.")
    if arguments.cluster:
        require_ray(arguments.cluster)
    folder, sweep = _resumed(arguments) if arguments.resume else _new(arguments)
    resume = how_to_resume(folder)
    resume += f" --cluster {shlex.quote(arguments.cluster)}" if arguments.cluster else ""
    resume += f" --workers {arguments.workers}" if arguments.workers else ""
    runs = "1 run is" if len(sweep.runs) == 1 else f"{len(sweep.runs)} runs are"
    console.print(f"{runs} kept in {folder}. Ctrl-C stops; to go on:\n  {resume}", markup=False)

    def announce(text: str) -> None:
        console.print(text, markup=False)

    outcome = run_sweep(folder, sweep, announce, workers=arguments.workers, cluster=arguments.cluster or "")
    if outcome.stopped:
        console.print(f"Stopped; everything is saved. To go on:\n  {resume}", markup=False)
        return 130
    _tell(folder, sweep, console)
    for name, why in outcome.failures.items():
        console.print(f"\n{name} failed: {plain(why)}", markup=False)
    return 1 if outcome.failures else 0


def _planned(arguments: argparse.Namespace) -> Sweep:
    """Return the requested sweep. Raises UsageError if it could not start."""
    from league.lab.sweeps.plan import Sweep, parse_conditions, parse_seeds, plan_runs
    from league.training.loop.readiness import check_start

    conditions = parse_conditions(arguments.condition)
    runs = plan_runs(arguments.config, parse_seeds(arguments.seeds or "0-4"), arguments.set, conditions)
    for config in {run.config.model_copy(update={"seed": 0}).model_dump_json(): run.config for run in runs}.values():
        check_start(config, arguments.cluster or "")  # of every condition, before the first is trained
    _check_questions(arguments.ask)
    return Sweep(runs, arguments.tokens, tuple(arguments.ask))


def _check_questions(commands: Sequence[str]) -> None:
    """Raise UsageError for a command that cannot be a question: not a command of league, or one without a report."""
    from league.cli.dispatch import parse
    from league.lab.sweeps.questions import command_questions

    command_questions(commands)
    for command in commands:
        try:
            arguments = parse(shlex.split(command))
        except UsageError as error:
            raise UsageError(f"--ask {command!r}: {error}") from None
        if "json" not in arguments:
            raise UsageError(f"--ask {command!r} has no figures: only commands with --json have them.")
        try:
            _check_names(arguments)
        except UsageError as error:
            raise UsageError(f"--ask {command!r}: {error}") from None


def _check_names(arguments: argparse.Namespace) -> None:
    """Raise UsageError for a game, an engine or a player that does not exist; runs are not looked for."""
    from games.registry import make_game
    from league.population.players.scripted import scripted_player

    given = getattr(arguments, "game", None)
    for name in given if isinstance(given, list) else [given] if given else []:
        make_game(name)
    if getattr(arguments, "engine", None):
        from league.population.players.model_engine import require_engine

        require_engine(arguments.engine, "--engine")
    for option in NAMES_RUNS:
        value = getattr(arguments, option, None)
        for text in value if isinstance(value, list) else [value] if isinstance(value, str) else []:
            scripted_player(text)


def _new(arguments: argparse.Namespace) -> tuple[Path, Sweep]:
    """Plan a new sweep; return its folder, and it."""
    from league.lab.sweeps.plan import save_plan

    if arguments.config is None:
        raise UsageError("league sweep takes what to train: a preset, such as pocket, or a TOML file.")
    sweep = _planned(arguments)
    folder = _new_folder(Path(arguments.config).stem, arguments.run_dir)
    save_plan(folder, sweep)
    return folder, sweep


def _resumed(arguments: argparse.Namespace) -> tuple[Path, Sweep]:
    """Return the folder of the sweep to resume, and the sweep with new runs and questions."""
    from league.lab.sweeps.plan import Sweep, extended, load_sweep, save_plan

    if not arguments.run_dir:
        raise UsageError("--resume continues the sweep in --run-dir DIR: name its folder.")
    folder = folder_to_fill(arguments.run_dir, "--run-dir")
    sweep = load_sweep(folder)
    if arguments.config is None and (arguments.set or arguments.condition or arguments.tokens or arguments.seeds):
        raise UsageError(
            "--resume continues the sweep in --run-dir under its own settings. To add runs to it, also name what to "
            "train: league sweep PRESET --seeds 5-9 --resume --run-dir DIR"
        )
    if arguments.config is None:
        _check_questions(arguments.ask)
        added = Sweep((), sweep.tokens, tuple(arguments.ask))
    else:
        arguments.tokens = arguments.tokens or sweep.tokens
        added = _planned(arguments)
    sweep = extended(folder, added)
    save_plan(folder, sweep)
    return folder, sweep


def _new_folder(stem: str, named: str | None) -> Path:
    """Return the folder of a new sweep. Raises UsageError if there is something in it."""
    from league.lab.sweeps.plan import how_to_resume
    from league.population.storage.run_dir import SWEEP_FILE, check_unused

    if named is None:
        names = (str(SWEEPS / (stem if number == 1 else f"{stem}-{number}")) for number in count(1))
        named = next(name for name in names if not Path(name).exists())
    folder = folder_to_fill(named, "--run-dir")
    if (folder / SWEEP_FILE).is_file():
        how = how_to_resume(folder)
        raise UsageError(f"{folder} already holds a sweep. Continue it ({how}), or choose another --run-dir.")
    check_unused(folder)
    return folder


def _tell(folder: Path, sweep: Sweep, console: Console) -> None:
    """Print the table of the trained runs, and write it to a file."""
    from league.lab.sweeps.training import trained

    complete = [run for run in sweep.runs if trained(folder, run, sweep.tokens)]
    if not complete:
        return
    from league.lab.sweeps.table import compare_runs

    comparison = compare_runs(folder, sweep, complete)
    at = f"iteration {comparison.iteration}" if sweep.tokens is None else f"{sweep.tokens:,} generated tokens"
    print_table(comparison, at, console)
    table = table_to_json(comparison) | ({} if sweep.tokens is None else {"iteration": None, "tokens": sweep.tokens})
    atomic_write(folder / TABLE_FILE, json.dumps(table, indent=1, allow_nan=False) + "\n")
    console.print(f"\nThis table is kept in {folder / TABLE_FILE}.", markup=False)
    console.print(f"All curves side by side:  league board {shlex.quote(str(folder))}", markup=False)


def print_table(comparison: RunComparison, at: str, console: Console) -> None:
    """Print each figure: the mean of each condition over its seeds, and the tests of each pair of conditions."""
    from league.lab.reports.differences import pair_tests

    console.print(f"\nAt {at}, with 95% intervals over seeds:", style="bold")
    for condition in comparison.conditions:
        seeds = ", ".join(map(str, sorted(condition.runs)))
        console.print(f"  {condition.letter}: {condition.name or 'as it is'} (seeds {seeds})", markup=False)
    for row in comparison.rows:
        if any(word in row.metric for word in LEFT_OUT):
            continue
        console.print(f"\n{row.metric}", style="bold", markup=False)
        for condition, mean in zip(comparison.conditions, row.means, strict=True):
            console.print(f"  {condition.letter}  {'–' if mean is None else format_interval(mean)}")
        for test in pair_tests(comparison, row):
            how = "paired by seeds" if test.pairs else "Welch"
            p = "" if test.p is None else f", p = {format_number(test.p)}, {format_number(test.p_holm)} by Holm"
            words = f"{test.second} − {test.first}  {format_interval(test.estimate, signed=True)}, {how}{p}"
            console.print(f"  {words}", markup=False)


def table_to_json(comparison: RunComparison) -> dict[str, Any]:
    """Return the table as JSON data. Values that were not computed are null."""
    from league.lab.reports.differences import pair_tests

    return {
        "iteration": comparison.iteration,
        "conditions": [
            {
                "letter": condition.letter,
                "name": condition.name,
                "runs": {s: str(r.path) for s, r in condition.runs.items()},
            }
            for condition in comparison.conditions
        ],
        "figures": {
            row.metric: {
                "means": {
                    condition.letter: None if mean is None else estimate_to_json("mean", mean)
                    for condition, mean in zip(comparison.conditions, row.means, strict=True)
                },
                "pairs": [
                    {
                        "first": test.first,
                        "second": test.second,
                        **estimate_to_json("difference", test.estimate),
                        "paired": test.pairs,
                        "p": test.p,
                        "p_holm": test.p_holm,
                    }
                    for test in pair_tests(comparison, row)
                ],
            }
            for row in comparison.rows
        },
    }
