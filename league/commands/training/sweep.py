"""``league sweep``: runs of one preset under several seeds and settings, and one table of what came of them."""

from __future__ import annotations

import argparse
import json
import shlex
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from games.common.files import atomic_write
from games.common.text import plain
from league.commands.formatting import estimate_to_json, format_interval, format_number
from league.monitors.terminal import Terminal
from league.players.machine import cores, require_ray
from league.players.readiness import check_start
from league.reports.differences import RunComparison, compare, pair_tests
from league.reports.run_record import read_run
from league.storage.lock import run_lock
from league.storage.run_dir import SWEEP_FILE, check_unused

if TYPE_CHECKING:
    from league.run.sweep import SweepOutcome, SweepRun

SWEEPS = Path("sweeps")  # the folder of new sweeps
TABLE_FILE = "table.json"
LEFT_OUT = ("/score/", "tokens_per_second")  # of the figures that are compared: not measured at the end, or of speed


def run(arguments: argparse.Namespace) -> int:
    """Train what is missing; return 0 when all is done, 130 when it was stopped, 1 when a run failed."""
    from league.run.sweep import load_sweep, parse_seeds, plan_sweep, save_plan  # torch is slow to import

    console = Terminal(soft_wrap=True)
    if arguments.cluster:
        require_ray(arguments.cluster)
    if arguments.resume:
        if arguments.config or arguments.set or not arguments.run_dir:
            raise UsageError(
                "--resume goes on with the sweep in --run-dir DIR, under its own settings: name only that."
            )
        folder = folder_to_fill(arguments.run_dir, "--run-dir")
        runs = load_sweep(folder)
    else:
        if arguments.config is None:
            raise UsageError("league sweep takes what to train: a preset, such as pocket, or a TOML file.")
        runs = plan_sweep(arguments.config, parse_seeds(arguments.seeds), arguments.set)
        check_start(runs[0].config, arguments.cluster or "")
        folder = _new_folder(Path(arguments.config).stem, arguments.run_dir)
        save_plan(folder, runs)
    resume = f"league sweep --resume --run-dir {shlex.quote(str(folder))}"
    if arguments.cluster:
        resume += f" --cluster {shlex.quote(arguments.cluster)}"
    console.print(f"{len(runs)} runs are kept in {folder}. Ctrl-C stops; to go on:\n  {resume}", markup=False)
    with run_lock(folder):
        outcome = _train(folder, runs, arguments.cluster, console)
        if outcome.stopped:
            console.print(f"Stopped; everything is saved. To go on:\n  {resume}", markup=False)
            return 130
        _tell(folder, runs, console)
    for name, why in outcome.failures.items():
        console.print(f"\n{name} failed: {plain(why)}", markup=False)
    return 1 if outcome.failures else 0


def _train(folder: Path, runs: list[SweepRun], cluster: str | None, console: Console) -> SweepOutcome:
    """Train what is missing: one run after another here, or side by side on a Ray cluster."""
    from league.run.sweep import run_sweep

    def announce(text: str) -> None:
        console.print(text, markup=False)

    if not cluster:
        return run_sweep(folder, runs, announce)
    from arena.cluster.ray_cluster import RayCluster  # slow to import
    from league.run.sweep_cluster import run_on_cluster

    with RayCluster(cluster, cores()) as joined:
        return run_on_cluster(folder, runs, joined, announce)


def _new_folder(stem: str, named: str | None) -> Path:
    """Return the folder of a new sweep. Raises UsageError if there is something in it."""
    if named is None:
        names = (str(SWEEPS / (stem if number == 1 else f"{stem}-{number}")) for number in count(1))
        named = next(name for name in names if not Path(name).exists())
    folder = folder_to_fill(named, "--run-dir")
    if (folder / SWEEP_FILE).is_file():
        how = f"league sweep --resume --run-dir {shlex.quote(str(folder))}"
        raise UsageError(f"{folder} holds a sweep already. Go on with it ({how}), or choose another --run-dir.")
    check_unused(folder)
    return folder


def _tell(folder: Path, runs: list[SweepRun], console: Console) -> None:
    """Print the table of the runs that are complete, and keep it."""
    from league.run.sweep import finished

    complete = [run for run in runs if finished(folder, run)]
    if not complete:
        return
    comparison = compare([read_run(str(folder / run.folder)) for run in complete])
    print_table(comparison, console)
    atomic_write(folder / TABLE_FILE, json.dumps(table_to_json(comparison), indent=1, allow_nan=False) + "\n")
    console.print(f"\nThis table is kept in {folder / TABLE_FILE}.", markup=False)
    console.print(f"All curves beside each other:  league board {shlex.quote(str(folder))}", markup=False)


def print_table(comparison: RunComparison, console: Console) -> None:
    """Print each figure: the mean of each condition over its seeds, and the tests of each pair of conditions."""
    console.print(f"\nAt iteration {comparison.iteration}, with 95% intervals over seeds:", style="bold")
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
    """Return the table as JSON data. What was not computed is null."""
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
