"""The cost of a sweep's run, and the answers about it: NAME.json beside the run's folder.

A killed run keeps its cost up to a few seconds before, so the sums over its sessions miss little.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from games.common.errors import UsageError
from games.common.files import atomic_write, read_json

SAVED_EVERY = 10.0  # seconds


class Cost(NamedTuple):
    """Time and memory of a run, summed over its sessions."""

    seconds: float  # from the start of its process, where it has one of its own
    training_seconds: float  # of those, without loading the program
    processor_seconds: float  # of all threads, and of its processes that have ended
    peak_memory_gb: float | None  # 10^9 bytes resident at most; None where it had no process of its own


class Swept(NamedTuple):
    """The record of a run beside its folder."""

    sessions: tuple[Cost, ...]
    answers: dict[str, dict[str, Any]]  # by question

    @property
    def cost(self) -> Cost | None:
        """The cost of all sessions; None if there was none here."""
        if not self.sessions:
            return None
        seconds, training, processor, peaks = zip(*self.sessions, strict=True)
        peak = None if None in peaks else max(peaks)
        return Cost(sum(seconds), sum(training), sum(processor), peak)


def read_record(run_dir: Path) -> Swept:
    """Return the record of a run. Raises UsageError for a damaged file."""
    path = _path(run_dir)
    try:
        table = read_json(path)
        return Swept(tuple(Cost(**session) for session in table["sessions"]), dict(table["answers"]))
    except FileNotFoundError:
        return Swept((), {})
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged ({error}). Remove it: only times and answers are lost.") from error


def write_record(run_dir: Path, swept: Swept) -> None:
    """Write the record of a run."""
    table = {"sessions": [session._asdict() for session in swept.sessions], "answers": swept.answers}
    atomic_write(_path(run_dir), json.dumps(table, indent=1) + "\n")


class Meter:
    """Measures a session of a run, and writes it down every few seconds.

    It counts from ``began`` by the monotonic clock (None: from now on), and all of the process if it is the run's own.
    """

    def __init__(self, run_dir: Path, began: float | None = None, *, own_process: bool = False) -> None:
        self._run_dir, self._own, self._before = run_dir, own_process, read_record(run_dir)
        self._training = self._saved = time.monotonic()
        self._began = self._training if began is None else began
        self._processor = 0.0 if own_process else _processor_seconds()

    @contextmanager
    def training(self) -> Iterator[None]:
        """While entered the run trains."""
        self._training = self._saved = time.monotonic()
        try:
            yield
        finally:
            self._save()

    def tick(self) -> None:
        """Write the cost so far, unless that was done a moment ago."""
        if time.monotonic() - self._saved >= SAVED_EVERY:
            self._save()

    def _save(self) -> None:
        self._saved = now = time.monotonic()
        spent = _processor_seconds() - self._processor
        cost = Cost(now - self._began, now - self._training, spent, peak_memory() if self._own else None)
        write_record(self._run_dir, self._before._replace(sessions=(*self._before.sessions, cost)))


def peak_memory() -> float | None:
    """Return this process's peak memory, in 10^9 bytes; None if the system does not report it.

    Not ru_maxrss, which on Linux counts the memory that its parent had when it started it.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * 1024 / 1e9 if match else None


def figures_of(swept: Swept) -> Mapping[str, float]:
    """Return the numbers of a run's cost and answers by name."""
    cost = swept.cost
    figures = {} if cost is None else {name: value for name, value in cost._asdict().items() if value is not None}
    for question, answer in swept.answers.items():
        for key, value in answer.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                figures[f"{question}: {key}"] = float(value)
    return figures


def _path(run_dir: Path) -> Path:
    return run_dir.with_name(f"{run_dir.name}.json")


def _processor_seconds() -> float:
    return sum(os.times()[:4])
