"""Helpers of all speed benchmarks: rates, their spread over repeats, and how they are printed."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Figures = dict[str, dict[str, float]]  # min, median and max over the repeats, by what was measured


def in_a_process(module: str, *words: str) -> Any:
    """Return what a module prints as JSON in a process of its own, whose peak memory is its own too, on one thread."""
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", module, *words]
        subprocess.run(command, stdout=output, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        output.seek(0)
        return json.loads(output.read())


def process_rate(run: Callable[[], int]) -> float:
    """Return what one run counts per second of this process's own time: other programs' time is left out."""
    start = time.process_time()
    return run() / (time.process_time() - start)


def clock_seconds(run: Callable[[], object]) -> float:
    """Return the seconds on the clock of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def spread(values: Mapping[str, Sequence[float]]) -> Figures:
    """Return min, median and max of each figure's values."""
    return {
        name: {"min": min(repeats), "median": statistics.median(repeats), "max": max(repeats)}
        for name, repeats in values.items()
    }


def ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return first ÷ second by repeat."""
    return [a / b for a, b in zip(first, second, strict=True)]


def speed_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a speed benchmark, to which each adds its own sizes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def print_figures(figures: Figures, unit: str, form: str, *, as_json: bool) -> None:
    """Print the figures as JSON or as a table; ``form`` is a format of numbers that are not ratios."""
    if as_json:
        print(json.dumps(figures))
        return
    print(f"{unit:20}" + "".join(f"{column:>12}" for column in ("min", "median", "max")))
    for name, row in figures.items():
        cell = ",.3f" if "ratio" in name else form
        print(f"{name:20}" + "".join(f"{row[column]:>12{cell}}" for column in ("min", "median", "max")))
