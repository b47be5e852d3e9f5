"""What a run measured, iteration by iteration: ``metrics.jsonl`` and TensorBoard's ``tb/``.

The only module that imports TensorBoard.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from league.alarms import Alarm

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tb"

# The curves that tell most, in this order: TensorBoard shows them above all others.
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


class Board:
    """Writes the metrics of each iteration to both places. Use it as a context manager.

    ``resume_at`` is the first iteration that will be written: what an interrupted process wrote from
    there on, a torn last line included, is cut off, so that each iteration stands there once.
    """

    def __init__(self, run_dir: Path, resume_at: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        run_dir.mkdir(parents=True, exist_ok=True)
        path = run_dir / METRICS_FILE
        _truncate(path, resume_at)
        self._lines = path.open("a", encoding="utf-8")
        self._writer = SummaryWriter(str(run_dir / TENSORBOARD_FOLDER), purge_step=resume_at)

    def write(self, iteration: int, metrics: Mapping[str, float], alarms: Sequence[Alarm] = ()) -> None:
        """Write one iteration; a metric that was not computed is absent, never 0.

        TensorBoard also gets the words of the alarms that begin in it.

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
                self._writer.add_text(f"alarms/{alarm.name}/{alarm.where}", str(alarm), iteration)
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
    """Yield what ``Board`` wrote, one mapping with the key ``iteration`` each, without a torn last line."""
    path = run_dir / METRICS_FILE
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def serve(run_dir: Path, port: int) -> str:
    """Start TensorBoard on a run, in a thread that ends with this process, and return its address.

    Port 0 takes any free one. Raises OSError if the port is taken.
    """
    from tensorboard import program

    if port:
        with socket.socket() as probe:  # TensorBoard itself would end the process
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("localhost", port))
    server = program.TensorBoard(
        server_class=lambda app, flags: program.WerkzeugServer(_opening_on_pinned(app, run_dir), flags)
    )
    server.configure(logdir=str(run_dir / TENSORBOARD_FOLDER), port=port, bind_all=False, load_fast="false")
    return str(server.launch())


def pinned(metrics: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names that ``PINNED`` names.

    A score that never moves is left out, for nobody wins a cooperative game, and so is an alarm that never rang.
    """
    values: dict[str, set[float]] = {}
    for line in metrics:
        for name, value in line.items():
            values.setdefault(name, set()).add(value)
    worth = [name for name, seen in values.items() if len(seen) > 1 or not re.search("/score|^alarms/", name)]
    return [name for pattern in PINNED for name in worth if re.fullmatch(pattern, name)]


def _opening_on_pinned(app: Callable[..., Any], run_dir: Path) -> Callable[..., Any]:
    """Return TensorBoard's WSGI application, its bare address sent on to the pinned curves, unsmoothed."""

    def opening(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] != "/" or environ.get("QUERY_STRING"):
            return app(environ, start_response)
        cards = [{"plugin": "scalars", "tag": name} for name in pinned(read_metrics(run_dir))]
        location = f"/?pinnedCards={quote(json.dumps(cards))}&smoothing=0"
        start_response("302 Found", [("Location", location), ("Content-Length", "0")])
        return []

    return opening


def _truncate(path: Path, resume_at: int) -> None:
    """Cut the file before the first line of iteration ``resume_at`` or later, or before a torn line."""
    if not path.exists():
        return
    keep = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n") or json.loads(line)["iteration"] >= resume_at:
                break
            keep += len(line)
        file.truncate(keep)
