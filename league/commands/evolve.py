"""``league evolve``: a new run goes on with the population of another, under new settings."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from games.errors import UsageError
from league.commands.train import conclude, new_folder
from league.runs import open_run


def run(arguments: argparse.Namespace) -> int:
    """Make the new run and train it; return as ``league train`` does."""
    if any(override.split("=")[0].strip() == "iterations" for override in arguments.set):
        raise UsageError("iterations counts from the first run's beginning. Say how many more with --iterations N.")
    if arguments.iterations is not None and arguments.iterations < 1:
        raise UsageError(f"--iterations {arguments.iterations}: at least one more iteration must be trained.")
    source = open_run(arguments.run).path
    run_dir = Path(arguments.run_dir) if arguments.run_dir else new_folder(f"{source.name}-evolved")
    from league.evolve import evolve  # torch is slow to import

    config = evolve(source, run_dir, arguments.iterations, arguments.set)
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{run_dir} goes on with the population of {source}, to iteration {config.iterations}. "
        "Ctrl-C stops it so that it can be resumed.",
        markup=False,
    )
    from league.session import resume

    return conclude(lambda: resume(run_dir), run_dir, console)
