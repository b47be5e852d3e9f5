"""Many training runs side by side, finished ones remembered, so that a measurement that was cut off goes on."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol


class Run(Protocol):
    """One training run to be measured; it travels to a worker process."""

    @property
    def key(self) -> str:
        """What tells this run from others of any study."""
        ...


def measured(
    runs: Sequence[Any],
    measure: Callable[[Any], dict[str, Any]],
    memory: Path,
    workers: int,
    shown: Callable[[Any, dict[str, Any]], str],
) -> dict[str, dict[str, Any]]:
    """Return the figures of all runs by key. Those that ``memory`` does not know are measured, and added to it."""
    known = dict(_remembered(memory))
    os.environ["OMP_NUM_THREADS"] = "1"  # for the workers
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(measure, run): run for run in runs if run.key not in known}
        for number, done in enumerate(as_completed(waiting), 1):
            run = waiting[done]
            known[run.key] = done.result()
            with memory.open("a", encoding="utf-8") as file:
                file.write(json.dumps([run.key, known[run.key]]) + "\n")
            print(f"{number}/{len(waiting)}  {shown(run, known[run.key])}", file=sys.stderr, flush=True)
    return known


def arguments_of(description: str | None, studies: Sequence[str]) -> argparse.Namespace:
    """Return the command line of a module that measures studies."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=sorted(studies))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="remember finished runs in DIR")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


def _remembered(memory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if memory.exists():
        for line in memory.read_text(encoding="utf-8").splitlines():
            key, figures = json.loads(line)
            yield key, figures
