"""What a run logs, iteration by iteration: ``metrics.jsonl``, ``mixtures.jsonl`` and TensorBoard's ``tb/``.

The only module that imports TensorBoard.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from games.aliases import short_metric
from games.common.errors import DamagedFile
from games.common.files import atomic_write
from league.monitors.alarms import Alarm
from league.monitors.questions import pinned_figures, pinned_metrics
from league.monitors.start_page import start_page

METRICS_FILE = "metrics.jsonl"
MIXTURES_FILE = "mixtures.jsonl"  # the weights of RUN@mixture after each snapshot
TENSORBOARD_FOLDER = "tb"
FIGURES_FILE = "figures.json"  # in that folder: the names of the figures
PATIENCE = 60.0  # seconds in which TensorBoard must have read the events before a page opens without pins
IF_DAMAGED = (
    "Restore it from a copy, or delete that line: only the curves lose by it. A run that is resumed with --from leaves "
    "such lines out by itself."
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
        _truncate(path, resume_at, _parse)
        _truncate(run_dir / MIXTURES_FILE, resume_at, _parse_mixtures)
        self._run_dir = run_dir
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
            self._writer.add_scalar(short_metric(name), value, iteration)
        for alarm in alarms:
            if alarm.since == iteration:
                self._writer.add_text(f"alarms/{alarm.name}/{alarm.subject}", str(alarm), iteration)
        self._writer.flush()

    def mixtures(self, iteration: int, weights: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
        """Append the weights of a mixture, by game, seat and player."""
        with (self._run_dir / MIXTURES_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"iteration": iteration, **weights}) + "\n")

    def figure(self, name: str, pixels: NDArray[np.uint8], iteration: int) -> None:
        """Write a figure, [height, width, 3], and remember its name beside the event files, which take long to read."""
        names = figures_of(self._run_dir)
        if name not in names:
            atomic_write(self._run_dir / TENSORBOARD_FOLDER / FIGURES_FILE, json.dumps([*names, name]))
        self._writer.add_image(name, pixels, iteration, dataformats="HWC")

    def text(self, name: str, text: str, iteration: int) -> None:
        """Write a text, which TensorBoard shows letter by letter as it is, whatever a model wrote in it."""
        self._writer.add_text(name, verbatim(text), iteration)

    def histogram(self, name: str, values: Sequence[float], iteration: int) -> None:
        """Write the distribution of values."""
        self._writer.add_histogram(name, np.asarray(values, dtype=float), iteration)

    def layout(self, categories: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Write the tab of custom scalars (``league.monitors.questions.layout``)."""
        self._writer.add_custom_scalars(categories)

    def settings(self, settings: Mapping[str, bool | float | str], metrics: Sequence[str]) -> None:
        """Write the run's settings by name, and the metrics by which TensorBoard compares runs."""
        from torch.utils.tensorboard.summary import hparams

        experiment, start, _ = hparams(dict(settings), dict.fromkeys(metrics, 0.0))
        for summary in (experiment, start):
            self._writer._get_file_writer().add_summary(summary)

    def flush(self) -> None:
        """Hand everything to the disk."""
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


def verbatim(text: str) -> str:
    """Return Markdown that shows a text letter by letter: an indented block of code, which no line can leave.

    Characters that are not printed, such as those that turn the direction of writing, are shown by their number.
    """
    lines = text.splitlines() or [""]
    shown = ("".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in line) for line in lines)
    return "\n".join(f"    {line}" for line in shown)


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


def serve_tensorboard(runs: Sequence[Path], port: int) -> str:
    """Start TensorBoard on runs, in a thread that ends with this process, and return its address.

    It opens on what is pinned of the first one. Port 0 takes any free one. Raises OSError if the port is taken.
    """
    from tensorboard import program

    names = run_names(runs)
    places = ",".join(f"{name}:{path.resolve() / TENSORBOARD_FOLDER}" for name, path in zip(names, runs, strict=True))

    if port:
        with socket.socket() as probe:  # TensorBoard would end the process if it is taken
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("localhost", port))
    server = program.TensorBoard(
        server_class=lambda app, flags: program.WerkzeugServer(_with_pinned_cards(app, names, runs), flags)
    )
    server.configure(logdir_spec=places, port=port, bind_all=False, load_fast="false")
    return str(server.launch())


def run_names(runs: Sequence[Path]) -> list[str]:
    """Return what TensorBoard calls each run: its folder's name, with a number where several have the same."""
    names: list[str] = []
    for path in runs:
        name = re.sub(r"[^-\w.]+", "_", path.resolve().name) or "run"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return names


def _with_pinned_cards(app: Callable[..., Any], names: Sequence[str], runs: Sequence[Path]) -> Callable[..., Any]:
    """Return TensorBoard's WSGI application whose bare address leads to what is pinned, unsmoothed and unclipped."""

    def begin(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] != "/" or environ.get("QUERY_STRING"):
            return app(environ, start_response)
        cards: list[dict[str, Any]] = [
            {"plugin": "images", "tag": figure, "runId": f"defaultExperimentId/{name}/.", "sample": 0}
            for figure in pinned_figures(figures_of(runs[0]))
            for name in names
        ]
        curves = map(short_metric, pinned_metrics(read_metrics(runs[0])))
        cards += [{"plugin": "scalars", "tag": curve} for curve in curves]
        _wait_until_loaded(app, {card["tag"] for card in cards})
        location = f"/?pinnedCards={quote(json.dumps(cards))}&smoothing=0"
        page = start_page(location)
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(page)))])
        return [page]

    return begin


def _wait_until_loaded(app: Callable[..., Any], tags: set[str]) -> None:
    """Wait until TensorBoard has read what will be pinned, or at most ``PATIENCE``: it does not look for it again."""
    from werkzeug.test import Client

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        known = json.loads(Client(app).get("/data/plugin/timeseries/tags").get_data())
        found = set(known["images"]["tagRunSampledInfo"]).union(*known["scalars"]["runTagInfo"].values())
        if tags <= found:
            return
        time.sleep(0.2)


def figures_of(run_dir: Path) -> list[str]:
    """Return the names of a run's figures, in the order in which they were first drawn."""
    path = run_dir / TENSORBOARD_FOLDER / FIGURES_FILE
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def _wait_for_next_name(folder: Path) -> None:
    """Wait until a new event file sorts behind those in the folder, which TensorBoard reads in the order of names.

    A name begins with the second of its making, and within a second the order is that of digits ("10" before "9").
    """
    seconds = {int(path.name.split(".")[3]) for path in folder.glob("events.out.tfevents.*")}
    now = time.time()
    if int(now) in seconds:
        time.sleep(1.0 - now % 1.0)


def _parse_mixtures(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the mixtures of one line. Raises DamagedFile."""
    try:
        mixtures = json.loads(line)
        if isinstance(mixtures["iteration"], int):
            return dict(mixtures)
    except (ValueError, TypeError, KeyError):
        pass
    raise DamagedFile(path, f"line {number} is not the mixtures of an iteration", IF_DAMAGED)


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
