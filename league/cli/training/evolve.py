"""``league lab evolve``: continue a run's population in a new run, under new settings."""

from __future__ import annotations

import argparse
import sys

from games.common.errors import UsageError
from games.common.text import plain
from league.cli.parser import COUNT, Parser

EXAMPLES = ("runs/pocket --iterations 100 --set optimizer.learning_rate=1e-4",)


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "--iterations", type=COUNT, metavar="N", help="how many more iterations (default: as many as RUN has done)"
    )
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where to keep the new run (default: a new folder under runs/)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )


def run(arguments: argparse.Namespace) -> int:
    """Create the new run and train it; return the exit status as ``league train`` does."""
    from league.cli.training.train import new_run_dir, run_session
    from league.population.storage.run_dir import open_run
    from league.training.monitors.terminal import Terminal

    if any(override.split("=")[0].strip() == "iterations" for override in arguments.set):
        raise UsageError(
            "--set iterations: this setting counts from the start of the first run. Give the number of further "
            "iterations with --iterations N."
        )
    source = open_run(arguments.run).path
    run_dir = new_run_dir(f"{source.name}-evolved", arguments.run_dir)
    from league.training.loop.evolve import evolve  # torch is slow to import
    from league.training.loop.failures import RunFailed

    try:
        config = evolve(source, run_dir, arguments.iterations, arguments.set)
    except RunFailed as failure:
        sys.stderr.write(f"league: {plain(str(failure))}\n")
        return 1
    console = Terminal(soft_wrap=True)
    console.print(
        f"{run_dir} continues the population of {source} to iteration {config.iterations}. "
        "Ctrl-C stops it so that it can be resumed.",
        markup=False,
    )
    from league.training.loop.session import resume

    return run_session(lambda: resume(run_dir), run_dir, console)
