"""``league lab distil``: one model that behaves as a run's mixture does on average."""

from __future__ import annotations

import argparse
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from games.common import plugins
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError, unknown_name
from league.cli.formatting import format_number
from league.cli.parser import Parser, add_teaching_options

if TYPE_CHECKING:
    from rich.console import Console

    from league.population.distillation.distil import Distilled, GameResult
    from league.population.storage.population import Snapshot

EXAMPLES = (
    "runs/pocket@mixture -o runs/pocket-distilled",
    "runs/pocket@mixture -o one --set distil.steps=1000 --json",
)


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("source", metavar="RUN@mixture", help="the mixture of a run's snapshots")
    add_teaching_options(parser, "distil.steps")


class DistilReport(NamedTuple):
    """The distilled model, and where it is kept."""

    source: str
    folder: Path
    snapshots: list[Snapshot]
    distilled: Distilled


def run(arguments: argparse.Namespace) -> DistilReport:
    """Distil a mixture into a folder."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    from arena.process import tuned_process
    from league.config.load import load_run_config
    from league.population.players.engines import Engines
    from league.population.storage.run_dir import Run, check_unused, find_run, run_names
    from league.training.monitors.terminal import progress_bar

    name, _, which = arguments.source.partition("@")
    path = find_run(name)
    if path is None:
        raise unknown_name("run", name, run_names(), "Write RUN@mixture; `league train` makes runs.")
    if which not in ("", "mixture"):
        raise UsageError(
            f"{arguments.source}: {which} is a single snapshot, which needs no distillation. Write {name}@mixture."
        )
    folder = folder_to_fill(arguments.out, "-o")
    check_unused(folder)
    source = Run(path)
    source.config = load_run_config(path, arguments.set)
    from league.population.distillation.distil import MIXTURE, distil  # torch is slow to import
    from league.population.distillation.folder import write_folder

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with (
        tuned_process(source.config.threads),
        Engines() as engines,
        progress_bar(*columns) as progress,
    ):
        task = progress.add_task("distilling", total=None)
        distilled = distil(
            source,
            MIXTURE,
            engines,
            source.config.seed if arguments.seed is None else arguments.seed,
            lambda what, done, of: progress.update(task, description=what, completed=done, total=of),
        )
    answers = {"roles": source.config.distil.roles}  # other settings for this command only do not belong to the model
    config = load_run_config(path)
    source.config = config.model_copy(update={"distil": config.distil.model_copy(update=answers)})
    label = f"{path.name}@{MIXTURE}"
    return DistilReport(label, folder, write_folder(folder, source, distilled, label), distilled)


def to_json(report: DistilReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    from league.population.distillation.folder import to_json as distilled_to_json

    return {"folder": str(report.folder)} | distilled_to_json(report.source, report.snapshots, report.distilled)


def print_report(report: DistilReport, console: Console) -> None:
    """Print how near the model is to the mixture, and what to do with it."""
    from league.population.distillation.distil import warning

    names = ", ".join(snapshot.id for snapshot in report.snapshots)
    console.print(f"{names} in {report.folder}, distilled from {report.source}", style="bold", markup=False)
    for result in report.distilled.games:
        console.print(_sentence(result), markup=False)
        if note := warning(result):
            console.print(note, style="yellow", markup=False)
    game, path = map(shlex.quote, (short_name(report.distilled.games[0].game), str(report.folder)))
    console.print(f"\nIt is a player:  league match {path} random --game {game}{plugins.as_options()}", markup=False)
    with suppress(IndexError):
        first = report.snapshots[0]
        if not (first.path / "adapter_config.json").is_file():
            console.print(f"and a base:      league train pocket --set model.source={path}", markup=False)


def _sentence(result: GameResult) -> str:
    """Return a sentence on how near a model is in one game, and its value there."""
    what = "its table over all information states" if result.exact else "its replies in matches with itself"
    words = (
        f"{short_name(result.game)}: KL of the mixture ({what}) to the model {result.kl_before:.2g} → "
        f"{result.kl_after:.2g} nats a situation"
    )
    if result.worth is None:
        return f"{words}; the game is too large for an exact value."
    worth = result.worth
    target = "" if worth.target is None else f"; the mixture's is {format_number(worth.target)}"
    return f"{words}; {worth.kind} {format_number(worth.before)} → {format_number(worth.after)}{target}."
