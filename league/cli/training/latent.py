"""``league lab latent``: cluster a run's utterances, solve the game between clusters, and teach its solution (LSPO)."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from games.common import plugins
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError, unknown_name
from games.common.text import plain
from league.cli.formatting import format_number
from league.cli.parser import Parser, add_teaching_options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from league.lab.latent.lspo import LatentRound, Lspo
    from league.population.storage.population import Snapshot
    from league.population.storage.run_dir import Run

EXAMPLES = (
    "runs/lspo -o runs/lspo-latent",
    "runs/pocket --game kuhn_poker -o one --set latent.clusters=2 --json",
)
NOTES = (
    "The tables [latent] and [distil] say how: league show settings latent. It is for games of two seats, one of "
    "which\nwins what the other loses."
)


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("source", metavar="RUN", help="a run's newest snapshot, RUN@SNAPSHOT or RUN@mixture")
    parser.add_argument("--game", metavar="GAME", help="one of the run's games, if it has several")
    add_teaching_options(parser, "latent.clusters")


class LatentReport(NamedTuple):
    """The taught model, and where it is kept."""

    source: str
    folder: Path
    snapshots: list[Snapshot]
    result: Lspo


def run(arguments: argparse.Namespace) -> LatentReport:
    """Teach a run's policies the equilibrium of the game between clusters of their utterances."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    from arena.process import tuned_process
    from league.config.load import load_run_config
    from league.population.players.engines import Engines
    from league.population.storage.run_dir import Run, check_unused, find_run, run_names
    from league.training.monitors.terminal import progress_bar

    name, at, which = arguments.source.partition("@")
    path = find_run(name)
    if path is None:
        raise unknown_name("run", name, run_names(), "`league train` makes runs, for example league train lspo.")
    folder = folder_to_fill(arguments.out, "-o")
    check_unused(folder)
    source = Run(path)
    source.config = load_run_config(path, arguments.set)
    game = _game_of(source, arguments.game)
    from league.lab.latent.folder import write_folder  # torch is slow to import
    from league.lab.latent.lspo import lspo

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with (
        tuned_process(source.config.threads),
        Engines() as engines,
        progress_bar(*columns) as progress,
    ):
        task = progress.add_task("listening", total=None)
        result = lspo(
            source,
            f"{path}{at}{which}",
            game,
            engines,
            source.config.seed if arguments.seed is None else arguments.seed,
            lambda what, done, of: progress.update(task, description=what, completed=done, total=of),
        )
    source.config = load_run_config(path)  # settings for this command only do not belong to the model
    label = f"{path.name}{at}{which}"
    return LatentReport(label, folder, write_folder(folder, source, result, label), result)


def _game_of(source: Run, named: str | None) -> str:
    """Return the game by its full name. Raises UsageError for a game that the run lacks, or none named of several."""
    from games.registry import make_game

    games = list(source.config.games)
    if named is None and len(games) > 1:
        raise UsageError(f"{source.path} has several games: name one with --game, which is one of {', '.join(games)}.")
    game = games[0] if named is None else make_game(named).spec.name
    if game not in games:
        raise unknown_name(f"game of {source.path}", game, games)
    return game


def to_json(report: LatentReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    from league.lab.latent.folder import to_json as latent_to_json

    return {"folder": str(report.folder)} | latent_to_json(report.source, report.snapshots, report.result)


def print_report(report: LatentReport, console: Console) -> None:
    """Print the clusters, the latent exploitability before and after, and what to do with the model."""
    result, names = report.result, ", ".join(snapshot.id for snapshot in report.snapshots)
    console.print(f"{names} in {report.folder}, taught from {report.source}", style="bold", markup=False)
    console.print(_clusters(result.rounds[-1]))
    for number, latent_round in enumerate(result.rounds, 1):
        console.print(_sentence(number, latent_round), markup=False)
    if result.exact is not None:
        before, after = map(format_number, result.exact)
        console.print(f"Exploitability in the whole game {before} → {after}.", markup=False)
    else:
        console.print("The whole game has no table, so the exploitability in it is not known.", markup=False)
    game = shlex.quote(short_name(result.game))
    console.print(
        f"\nIt is a player:  league match {report.folder} random --game {game}{plugins.as_options()}", markup=False
    )


def _clusters(latent_round: LatentRound) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("role", "cluster", "in equilibrium", "utterances", "such as"):
        table.add_column(heading, justify="left" if heading in ("role", "such as") else "right", overflow="fold")
    numbers: dict[str, int] = {}
    for cluster in latent_round.clusters:
        numbers[cluster.role] = number = numbers.get(cluster.role, 0) + 1
        shown = plain("; ".join(" ".join(text.split()) for text in cluster.utterances))
        table.add_row(cluster.role, str(number), f"{cluster.equilibrium:.0%}", str(cluster.size), Text(shown))
    return table


def _sentence(number: int, latent_round: LatentRound) -> str:
    before, after, value = map(format_number, (latent_round.before, latent_round.after, latent_round.value))
    return (
        f"Round {number}: latent exploitability {before} → {after}; the latent game has {latent_round.states} "
        f"information states and the value {value} to its first seat; KL of "
        f"its equilibrium to the model {latent_round.kl_before:.2g} → {latent_round.kl_after:.2g} nats a situation."
    )
