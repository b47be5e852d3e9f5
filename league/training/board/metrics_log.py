"""A run's log, iteration by iteration: ``metrics.jsonl``, ``mixtures.jsonl`` and TensorBoard's ``tb/``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import textwrap
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from games.aliases import short_metric
from games.common.errors import DamagedFile
from games.common.files import atomic_write, parse_json, read_file
from league.training.board.descriptions import description
from league.training.board.event_file import Charts, EventFile
from league.training.board.painting import Picture
from league.training.monitors.alarms import Alarm

METRICS_FILE = "metrics.jsonl"
MIXTURES_FILE = "mixtures.jsonl"  # the weights of RUN@mixture after each snapshot
TENSORBOARD_FOLDER = "tb"
FIGURES_FILE = "figures.json"  # in that folder: the names of the figures
LETTERS = 100  # in a line of an alarm
ROUNDING = 1e-6  # of the weights of a mixture
SEAL = "sha256"  # the last key of its line
IF_DAMAGED = (
    "Restore it from a copy, or delete that line: only the curves are affected. A run resumed with --from leaves out "
    "such lines by itself."
)


class MetricsLog:
    """Writes the metrics of each iteration to both places. Use it as a context manager.

    ``resume_at`` is the first iteration that will be written: lines that an interrupted process wrote from
    there on, and a torn last line, are cut off, so that each iteration is logged once.
    """

    def __init__(self, run_dir: Path, resume_at: int = 0) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        path = run_dir / METRICS_FILE
        _truncate(path, resume_at, _parse)
        _truncate(run_dir / MIXTURES_FILE, resume_at, _parse_mixtures)
        self._run_dir = run_dir
        self._lines = path.open("a", encoding="utf-8")
        self._events = EventFile(run_dir / TENSORBOARD_FOLDER, resume_at)

    def write(self, iteration: int, metrics: Mapping[str, float], alarms: Sequence[Alarm] = ()) -> None:
        """Write one iteration; a metric that was not computed is absent, never 0.

        TensorBoard also gets the text of the alarms that start in it.
        Raises ValueError, and writes nothing, if a metric is not finite.
        """
        broken = {name: value for name, value in metrics.items() if not math.isfinite(value)}
        if broken:
            raise ValueError(f"Iteration {iteration} has metrics that are not finite: {broken}.")
        self._lines.write(json.dumps({"iteration": iteration, **metrics}) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self._events.scalars({short_metric(name): value for name, value in metrics.items()}, iteration, description)
        for alarm in alarms:
            if alarm.since == iteration:
                self.text(f"alarms/{alarm.name}/{alarm.subject}", textwrap.fill(str(alarm), LETTERS), iteration)
        self._events.flush()

    def later(self, name: str, value: float, iteration: int) -> None:
        """Give TensorBoard a number that was not yet known when the iteration was written."""
        self._events.scalars({name: value}, iteration, description)

    def mixtures(self, iteration: int, weights: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
        """Append the weights of a mixture, by game, seat and player."""
        with (self._run_dir / MIXTURES_FILE).open("a", encoding="utf-8") as file:
            file.write(mixtures_line(iteration, weights))

    def figure(self, picture: Picture) -> None:
        """Write a figure, and its name beside the event files, which are slow to read. One thread at a time may."""
        names = figures_of(self._run_dir)
        if picture.name not in names:
            atomic_write(self._run_dir / TENSORBOARD_FOLDER / FIGURES_FILE, json.dumps([*names, picture.name]))
        self._events.append(picture.record)

    def text(self, name: str, text: str, iteration: int) -> None:
        """Write a text, which TensorBoard shows verbatim, whatever a model wrote in it."""
        self._events.text(name, verbatim(text), iteration)

    def histogram(self, name: str, values: Sequence[float], iteration: int) -> None:
        """Write the distribution of at least one value."""
        self._events.histogram(name, np.asarray(values, dtype=float), iteration)

    def layout(self, categories: Charts) -> None:
        """Write the tab of custom scalars (``league.training.board.questions.layout``)."""
        self._events.layout(categories)

    def settings(
        self, settings: Mapping[str, bool | float | str], first: Container[str], metrics: Sequence[str]
    ) -> None:
        """Write the run's settings by name, the ones to show first, and the metrics by which runs are compared."""
        self._events.settings(settings, first, metrics)

    def flush(self) -> None:
        """Hand everything to the disk."""
        self._events.flush()

    def close(self) -> None:
        """Close both files."""
        self._lines.close()
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def verbatim(text: str) -> str:
    """Return Markdown that shows a text verbatim: an indented code block, which no line can escape.

    Unprintable characters, such as those that change the direction of writing, are shown by their number.
    """
    lines = text.splitlines() or [""]
    escaped = ("".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in line) for line in lines)
    return "\n".join(f"    {line}" for line in escaped)


def mixtures_line(iteration: int, weights: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return a line of ``mixtures.jsonl``, which ends with the SHA-256 of the text before it."""
    content = {"iteration": iteration, **weights}
    return json.dumps({**content, SEAL: _seal(content)}) + "\n"


def read_mixtures(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield what ``MetricsLog.mixtures`` wrote, with the key ``iteration``. Raises UsageError for a damaged line."""
    for number, line in enumerate(_lines(run_dir / MIXTURES_FILE), 1):
        if line.endswith(b"\n"):
            yield _parse_mixtures(run_dir / MIXTURES_FILE, number, line)


def read_metrics(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield each iteration that ``MetricsLog`` wrote as one mapping, with the key ``iteration``; no torn last line.

    Raises UsageError for a line that is damaged.
    """
    for number, line in enumerate(_lines(run_dir / METRICS_FILE), 1):
        if line.endswith(b"\n"):
            yield _parse(run_dir / METRICS_FILE, number, line)


def readable_lines(run_dir: Path, name: str = METRICS_FILE) -> Iterator[bytes]:
    """Yield the lines of either log that ``read_metrics`` or ``read_mixtures`` would not refuse."""
    for line in _lines(run_dir / name):
        with suppress(DamagedFile):
            if line.endswith(b"\n") and _PARSERS[name](run_dir / name, 0, line):
                yield line


def _lines(path: Path) -> list[bytes]:
    """Return a log's lines with their line ends, which a torn last line lacks; none if the log does not exist."""
    try:
        *lines, torn = read_file(path).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read: {error.strerror}") from error
    return [*(line + b"\n" for line in lines), *([torn] if torn else [])]


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the metrics of one line. Raises DamagedFile."""
    try:
        metrics = parse_json(line.decode())
        if isinstance(metrics["iteration"], int) and all(math.isfinite(value) for value in metrics.values()):
            return dict(metrics)
    except (ValueError, TypeError, KeyError):
        pass
    raise DamagedFile(path, f"line {number} is not the metrics of an iteration", IF_DAMAGED)


def figures_of(run_dir: Path) -> list[str]:
    """Return the names of a run's figures, in the order in which they were first drawn."""
    path = run_dir / TENSORBOARD_FOLDER / FIGURES_FILE
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def _parse_mixtures(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the mixtures of one line, as they were written: the weights of a seat sum to one. Raises DamagedFile."""
    try:
        content = parse_json(line.decode())
        seal = content.pop(SEAL, None)  # older lines have none
        sums = [sum(seat.values()) for game, seats in content.items() if game != "iteration" for seat in seats]
        whole = isinstance(content["iteration"], int) and all(abs(total - 1.0) < ROUNDING for total in sums)
        if whole and seal in (None, _seal(content)):
            return dict(content)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise DamagedFile(path, f"line {number} is not the mixtures of an iteration as they were written", IF_DAMAGED)


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


_PARSERS = {METRICS_FILE: _parse, MIXTURES_FILE: _parse_mixtures}


def _truncate(path: Path, resume_at: int, parse: Callable[[Path, int, bytes], dict[str, Any]]) -> None:
    """Truncate the file before the first line of iteration ``resume_at`` or later, or before a torn line."""
    if not path.exists():
        return
    size = 0  # bytes
    for number, line in enumerate(_lines(path), 1):
        if not line.endswith(b"\n") or parse(path, number, line)["iteration"] >= resume_at:
            break
        size += len(line)
    os.truncate(path, size)
