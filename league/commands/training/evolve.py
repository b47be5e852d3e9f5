"""``league evolve``: continue a run's population in a new run, under new settings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from games.common.errors import UsageError
from league.commands.training.train import new_run_dir, run_session
from league.storage.run_dir import open_run


def run(arguments: argparse.Namespace) -> int:
    """Create the new run and train it; return the exit status as ``league train`` does."""
    if any(override.split("=")[0].strip() == "iterations" for override in arguments.set):
        raise UsageError(
            "--set iterations: this setting counts from the beginning of the first run. "
            "Say how many more with --iterations N."
        )
    if arguments.iterations is not None and arguments.iterations < 1:
        raise UsageError(f"--iterations {arguments.iterations}: at least one more iteration must be trained.")
    source = open_run(arguments.run).path
    run_dir = Path(arguments.run_dir) if arguments.run_dir else new_run_dir(f"{source.name}-evolved")
    from league.run.evolve import evolve  # torch is slow to import
    from league.run.failures import RunFailed

    try:
        config = evolve(source, run_dir, arguments.iterations, arguments.set)
    except RunFailed as failure:
        sys.stderr.write(f"league: {failure}\n")
        return 1
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{run_dir} goes on with the population of {source}, to iteration {config.iterations}. "
        "Ctrl-C stops it so that it can be resumed.",
        markup=False,
    )
    from league.run.session import resume

    return run_session(lambda: resume(run_dir), run_dir, console)
