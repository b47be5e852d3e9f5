"""Training runs side by side, of which finished ones are remembered, so that an interrupted study continues.

Not by `league sweep`: the time of a whole run is one of the figures, so a run that goes on in another process is none
of these; some runs end at a number of tokens; and what is measured is asked in the process that has trained.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

Result = dict[str, Any]  # of a study, as the page's tables read it


class MeasuredRun(Protocol):
    """One training run of a study; it is pickled for a worker process."""

    @property
    def key(self) -> str:
        """A string that differs between any two runs of any studies."""
        ...


def measure_runs(
    runs: Sequence[Any],
    measure: Callable[[Any], dict[str, Any]],
    memory: Path,
    workers: int,
    describe: Callable[[Any, dict[str, Any]], str],
) -> dict[str, dict[str, Any]]:
    """Return the figures of ``MeasuredRun``s by key; those not yet in the file ``memory`` are measured and added."""
    figures = dict(_remembered(memory))
    os.environ["OMP_NUM_THREADS"] = "1"  # for the workers
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(measure, run): run for run in runs if run.key not in figures}
        for number, future in enumerate(as_completed(futures), 1):
            run = futures[future]
            figures[run.key] = future.result()
            with memory.open("a", encoding="utf-8") as file:
                file.write(json.dumps([run.key, figures[run.key]]) + "\n")
            print(f"{number}/{len(futures)}  {describe(run, figures[run.key])}", file=sys.stderr, flush=True)
    return figures


def describe_run(name: str, seed: int, figures: dict[str, Any]) -> str:
    """Return a finished run in a line."""
    return f"{name}, seed {seed}: {figures['figure']:.3f} ({figures['seconds']:.0f} s)"


def run_study(
    description: str | None,
    studies: Sequence[str],
    measure: Callable[[str, Sequence[int], int, Path], Result],
    lines: Callable[[Result], Iterator[str]],
) -> None:
    """Run the command line of a module of studies: ``measure(study, seeds, workers, keep)``, then print."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=sorted(studies))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="remember finished runs in DIR")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = arguments.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        result = measure(arguments.study, arguments.seeds, arguments.workers, keep)
    for line in [json.dumps(result)] if arguments.json else lines(result):
        print(line)


def table_lines(result: Result) -> Iterator[str]:
    """Yield a line for each game and condition of a result with ``tables``."""
    for table in result["tables"]:
        for condition in table["conditions"]:
            figures = " ".join(f"{run['figure']:.3f}" for run in condition["runs"])
            yield f"{table['game']}: {table['figure']}: {condition['name']}: {figures}"


def _remembered(memory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if memory.exists():
        for line in memory.read_text(encoding="utf-8").splitlines():
            key, figures = json.loads(line)
            yield key, figures
