"""``league lab breed``: a population of runs, each generation made from the last by a breeding rule."""

from __future__ import annotations

import argparse
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from games.common import plugins
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from league.cli.formatting import format_number
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

    from league.lab.breeding.breeding import Breeding

EXAMPLES = (
    "pocket --set descent.members=4 --set descent.generations=5",
    "pocket --set descent.rule=merge --set descent.merge=ties --set descent.generations=5",
    "--resume --run-dir bred/pocket",
)
BRED = Path("bred")  # the folder of new populations


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument(
        "config",
        nargs="?",
        metavar="PRESET|FILE.toml",
        help="preset or .toml file to breed; its table [descent] says how",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where to keep the population (default: a new folder under bred/)"
    )
    parser.add_argument("--resume", action="store_true", help="continue the population in --run-dir")
    add_json_option(parser)


class BreedReport(NamedTuple):
    """The bred population."""

    folder: Path
    record: dict[str, Any]


def run(arguments: argparse.Namespace) -> BreedReport:
    """Breed all generations; each one's result is printed on standard error."""
    from league.config.load import load
    from league.training.monitors.terminal import Terminal

    if arguments.resume and (arguments.config or arguments.set):
        raise UsageError("--resume keeps the settings that breeding began with. Leave out the preset and --set.")
    if arguments.resume and not arguments.run_dir:
        raise UsageError("--resume needs a folder: name it with --run-dir.")
    if not arguments.resume and not arguments.config:
        raise UsageError("Name what to breed: a preset of `league show presets`, or a .toml file.")
    config = None if arguments.resume else load(arguments.config, arguments.set)
    folder = folder_to_fill(arguments.run_dir or _new(Path(arguments.config).stem), "--run-dir")
    console = Terminal(stderr=True, soft_wrap=True)
    from league.lab.breeding.breeding import breed, budget_of  # torch is slow to import
    from league.training.loop.failures import RunFailed

    if config is not None:
        budget = budget_of(config)
        console.print(f"{folder}: {budget}, by the rule {config.descent.rule}.", markup=False)
    try:
        breeding: Breeding = breed(config, folder, lambda line: console.print(line, markup=False))
    except RunFailed as failure:
        raise UsageError(
            f"{failure} To go on: league lab breed --resume --run-dir {folder}{plugins.as_options()}"
        ) from failure
    return BreedReport(folder, breeding.record())


def _new(stem: str) -> str:
    names = (str(BRED / (stem if number == 1 else f"{stem}-{number}")) for number in count(1))
    return next(name for name in names if not Path(name).exists())


def to_json(report: BreedReport) -> dict[str, Any]:
    """Return the record as JSON data. Values that were not computed are null."""
    return {"folder": str(report.folder), **report.record}


def print_report(report: BreedReport, console: Console) -> None:
    """Print the elite, its value, its descent, and the budget spent."""
    record, elite = report.record, report.record["elite"]
    path = report.folder / elite["run"]
    console.print(f"The best of all generations: {path}", style="bold", markup=False)
    for game, value in (elite["values"] or {}).items():
        console.print(f"  {short_name(game)}: {format_number(value, True)} of half the game's range", markup=False)
    for name, value in elite["settings"].items():
        console.print(f"  {name} = {value:.4g}", markup=False)
    rows = {member["run"]: member for generation in record["history"] for member in generation["members"]}
    row = rows[elite["run"]]
    console.print(f"  from {', '.join(row['parents'])}: {row['how']}", markup=False)
    spent, budget = record["spent"], record["budget"]
    console.print(
        f"{spent['generations']} of {budget['generations']} generations and {spent['iterations']:,} of "
        f"{budget['total']:,} iterations were spent.",
        markup=False,
    )
    console.print(f"\nIt is a run:  league standings {path}{plugins.as_options()}", markup=False)
