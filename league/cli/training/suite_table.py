"""The table with which a run with a suite ends: games trained and held out, before training and after it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from games.aliases import short_name
from league.cli.formatting import format_number, match_progress, plain_table
from league.lab.comparisons.before_and_after import Change, changes
from league.population.storage.run_dir import Run


def print_suite(run: Run, console: Console) -> None:
    """Play the matches of a run's suite, unless they are played, and print their table; nothing for no suite."""
    settings = run.config.evaluation
    if settings.suite is None or not settings.suite_matches:
        return
    with match_progress() as progress:
        task = progress.add_task(f"playing {settings.suite}", total=None)
        found = changes(run, lambda _: progress.advance(task))
    console.print(f"\nGames of {settings.suite}, trained and held out", style="bold", markup=False)
    console.print("Mean returns of the first snapshot and of the last, on the same deals.")
    console.print(_table(found))


def _table(found: list[Change]) -> Table:
    table = plain_table("game", "", "against", "first", "last", "difference", "95% interval")
    for change in found:
        pairing, (mean, *bounds) = change.pairing, change.difference
        low, high = (format_number(bound, signed=True) for bound in bounds)
        table.add_row(
            short_name(pairing.game).partition("(")[0],
            "trained" if pairing.kind == "training" else pairing.kind,
            pairing.opponent,
            format_number(change.before.returns.mean, signed=True),
            format_number(change.after.returns.mean, signed=True),
            format_number(mean, signed=True),
            f"{low} to {high}",
        )
    return table
