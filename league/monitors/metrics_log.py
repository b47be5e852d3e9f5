"""A run's metrics, iteration by iteration: ``metrics.jsonl`` and TensorBoard's ``tb/``.

The only module that imports TensorBoard.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from games.common.errors import DamagedFile
from league.monitors.alarms import Alarm

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tb"
IF_DAMAGED = (
    "Restore it from a copy, or delete that line: only the curves lose by it. A run that is resumed with --from leaves "
    "such lines out by itself."
)

# The most informative curves, in this order: TensorBoard shows them above all others.
PINNED = (
    r".+/(mixture_)?exploitability",
    r".+/return",
    r".+/score_against_.+",
    r"rating",
    r".+/score/.+",
    r"alarms/.+",
    r"illegal_rate",
    r"gap",
)


class MetricsLog:
    """Writes the metrics of each iteration to both places. Use it as a context manager.

    ``resume_at`` is the first iteration that will be written: lines that an interrupted process wrote from
    there on, and a torn last line, are cut off, so that each iteration is logged once.
    """

    def __init__(self, run_dir: Path, resume_at: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        run_dir.mkdir(parents=True, exist_ok=True)
        path = run_dir / METRICS_FILE
        _truncate(path, resume_at)
        self._lines = path.open("a", encoding="utf-8")
        _wait_for_next_name(run_dir / TENSORBOARD_FOLDER)
        self._writer = SummaryWriter(str(run_dir / TENSORBOARD_FOLDER), purge_step=resume_at)

    def write(self, iteration: int, metrics: Mapping[str, float], alarms: Sequence[Alarm] = ()) -> None:
        """Write one iteration; a metric that was not computed is absent, never 0.

        TensorBoard also gets the text of the alarms that begin in it.
        Raises ValueError, and writes nothing, if a metric is not finite.
        """
        broken = {name: value for name, value in metrics.items() if not math.isfinite(value)}
        if broken:
            raise ValueError(f"Iteration {iteration} has metrics that are not finite: {broken}.")
        self._lines.write(json.dumps({"iteration": iteration, **metrics}) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, iteration)
        for alarm in alarms:
            if alarm.since == iteration:
                self._writer.add_text(f"alarms/{alarm.name}/{alarm.subject}", str(alarm), iteration)
        self._writer.flush()

    def close(self) -> None:
        """Close both files."""
        self._lines.close()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield each iteration that ``MetricsLog`` wrote as one mapping, with the key ``iteration``; no torn last line.

    Raises UsageError for a line that is damaged.
    """
    for number, line in enumerate(_lines(run_dir / METRICS_FILE), 1):
        if line.endswith(b"\n"):
            yield _parse(run_dir / METRICS_FILE, number, line)


def readable_lines(run_dir: Path) -> Iterator[bytes]:
    """Yield the lines that ``read_metrics`` would not refuse."""
    for line in _lines(run_dir / METRICS_FILE):
        with suppress(DamagedFile):
            if line.endswith(b"\n") and _parse(run_dir / METRICS_FILE, 0, line):
                yield line


def _lines(path: Path) -> list[bytes]:
    """Return a log's lines with their ends, which a torn last one lacks; none of a log that does not exist."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read: {error.strerror}") from error
    return [*(line + b"\n" for line in lines), *([torn] if torn else [])]


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the metrics of one line. Raises DamagedFile."""
    try:
        metrics = json.loads(line)
        if isinstance(metrics["iteration"], int) and all(math.isfinite(value) for value in metrics.values()):
            return dict(metrics)
    except (ValueError, TypeError, KeyError):
        pass
    raise DamagedFile(path, f"line {number} is not the metrics of an iteration", IF_DAMAGED)


def serve_tensorboard(run_dir: Path, port: int) -> str:
    """Start TensorBoard on a run, in a thread that ends with this process, and return its address.

    Port 0 takes any free one. Raises OSError if the port is taken.
    """
    from tensorboard import program

    if port:
        with socket.socket() as probe:  # TensorBoard would end the process if it is taken
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("localhost", port))
    server = program.TensorBoard(
        server_class=lambda app, flags: program.WerkzeugServer(_with_pinned_cards(app, run_dir), flags)
    )
    server.configure(logdir=str(run_dir / TENSORBOARD_FOLDER), port=port, bind_all=False, load_fast="false")
    return str(server.launch())


def pinned_metrics(metrics: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names of metrics that match ``PINNED``, in its order.

    A score that never changes, as in a cooperative game, is left out, and so is an alarm that never rang.
    """
    values: dict[str, set[float]] = {}
    for line in metrics:
        for name, value in line.items():
            values.setdefault(name, set()).add(value)
    names = [name for name, distinct in values.items() if len(distinct) > 1 or not re.search("/score|^alarms/", name)]
    return [name for pattern in PINNED for name in names if re.fullmatch(pattern, name)]


def _with_pinned_cards(app: Callable[..., Any], run_dir: Path) -> Callable[..., Any]:
    """Return TensorBoard's WSGI application with its bare address redirected to the pinned curves, unsmoothed."""

    def redirect(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] != "/" or environ.get("QUERY_STRING"):
            return app(environ, start_response)
        cards = [{"plugin": "scalars", "tag": name} for name in pinned_metrics(read_metrics(run_dir))]
        location = f"/?pinnedCards={quote(json.dumps(cards))}&smoothing=0"
        start_response("302 Found", [("Location", location), ("Content-Length", "0")])
        return []

    return redirect


def _wait_for_next_name(folder: Path) -> None:
    """Wait until a new event file sorts behind those in the folder, which TensorBoard reads in the order of names.

    A name begins with the second of its making, and within a second the order is that of digits ("10" before "9").
    """
    seconds = {int(path.name.split(".")[3]) for path in folder.glob("events.out.tfevents.*")}
    now = time.time()
    if int(now) in seconds:
        time.sleep(1.0 - now % 1.0)


def _truncate(path: Path, resume_at: int) -> None:
    """Truncate the file before the first line of iteration ``resume_at`` or later, or before a torn line."""
    if not path.exists():
        return
    size = 0  # bytes
    for number, line in enumerate(_lines(path), 1):
        if not line.endswith(b"\n") or _parse(path, number, line)["iteration"] >= resume_at:
            break
        size += len(line)
    os.truncate(path, size)
