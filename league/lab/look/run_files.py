"""A run's files, each read when it is first asked for and again when it has changed: the run may train meanwhile.

Nothing is written. Slow imports are left to the code that needs them, so that the first view appears at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from games.common.errors import UsageError, unknown_name
from games.common.files import read_toml
from league.population.storage.sampled_matches import EPISODES_FOLDER, SampledMatch, load_samples, sample_files
from league.training.board.metrics_log import METRICS_FILE

if TYPE_CHECKING:
    from league.config.context import RunContext
    from league.lab.look.scoring import SnapshotWeights
    from league.population.storage.population import Snapshot
    from league.population.storage.run_dir import Run

SNAPSHOTS = "population"  # of a run
MOST_FILES = 8  # of kept matches that are held whole

Content = TypeVar("Content")


class LoggedCurve(NamedTuple):
    """A metric over a run."""

    iterations: list[int]
    values: list[float]  # as many


class RunFiles:
    """The files of one run. Threads may share it."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._lock = threading.RLock()
        self._metrics = _MetricsReader(path / METRICS_FILE)
        self._contents: dict[tuple[str, Path], tuple[tuple[int, int], Any]] = {}  # by kind, with the file's state

    @cached_property
    def toml(self) -> dict[str, Any]:
        """The configuration as it is written."""
        return read_toml(self.path / "config.toml")

    @cached_property
    def context(self) -> RunContext:
        """The configuration, and what is derived from it. Raises UsageError for games that are not made here."""
        from league.config.context import run_context
        from league.config.load import load_run_config

        return run_context(load_run_config(self.path, makes=False), self.path)

    @cached_property
    def weights(self) -> SnapshotWeights:
        """The models of the snapshots, loaded when they are asked for; one thread at a time may ask."""
        from league.lab.look.scoring import SnapshotWeights

        return SnapshotWeights(self.path)

    def close(self) -> None:
        """Forget the models."""
        if "weights" in self.__dict__:
            self.weights.close()

    def metrics(self) -> dict[str, LoggedCurve]:
        """Return every metric so far; the lists grow while the run trains."""
        with self._lock:
            return dict(self._metrics.read())

    def done(self) -> int:
        """Return the last iteration that is logged; 0 before the first."""
        self.metrics()
        return self._metrics.last

    def number_of_snapshots(self) -> int:
        """Return how many snapshots there are, without reading them."""
        folder = self.path / SNAPSHOTS
        return sum(not entry.name.startswith(".") for entry in folder.iterdir()) if folder.is_dir() else 0

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots in the order of their steps."""
        from league.population.storage.population import Population

        folder = self.path / SNAPSHOTS
        return self.of_file("snapshots", folder, lambda: Population(folder).all()) if folder.is_dir() else []

    def snapshot(self, identity: str) -> Snapshot:
        """Return a snapshot. Raises UsageError that offers the nearest ids."""
        by_id = {snapshot.id: snapshot for snapshot in self.snapshots()}
        if identity not in by_id:
            raise unknown_name("snapshot", identity, by_id)
        return by_id[identity]

    def published(self, name: str, read: Callable[[Run], Content]) -> Content | None:
        """Return what is read of a file that the run replaces as a whole; None if there is none yet."""
        from league.population.storage.run_dir import Run

        path = self.path / name
        return self.of_file("published", path, lambda: read(Run(self.path))) if path.is_file() else None

    def sample_files(self) -> list[Path]:
        """Return the files of kept matches, the oldest first."""
        return sample_files(self.path)

    def samples(self, iteration: int) -> list[SampledMatch]:
        """Return the kept matches of an iteration. Raises UsageError where none are kept."""
        path = self.path / EPISODES_FOLDER / f"iteration-{iteration:06d}.jsonl"
        if not path.is_file():
            raise UsageError(f"{self.name} kept no match of iteration {iteration}.")
        with self._lock:
            held = [key for key in self._contents if key[0] == "samples"]
            for key in held[:-MOST_FILES]:
                del self._contents[key]
        return self.of_file("samples", path, lambda: load_samples(path))

    def of_file(self, kind: str, path: Path, read: Callable[[], Content]) -> Content:
        """Return what ``read`` makes of a file or folder; it is called again only when that has changed."""
        state = path.stat()
        stamp = (state.st_mtime_ns, state.st_size)
        with self._lock:
            kept = self._contents.get((kind, path))
            if kept is None or kept[0] != stamp:
                kept = self._contents[kind, path] = (stamp, read())
            content: Content = kept[1]
            return content


class _MetricsReader:
    """Reads a growing log: each line once, unless the log was cut off, as by a resumed run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._forget()

    def _forget(self) -> None:
        self.last = 0
        self._size, self._last_line = 0, b""
        self._curves: dict[str, LoggedCurve] = {}

    def read(self) -> dict[str, LoggedCurve]:
        if not self._path.is_file():
            return self._curves
        with self._path.open("rb") as file:
            if not self._continues(file):
                self._forget()
            file.seek(self._size)
            for line in file:  # one by one: a long log is never in memory twice
                if line.endswith(b"\n"):  # else it is still being written
                    self._add(line)
        return self._curves

    def _continues(self, file: Any) -> bool:
        """Return whether the line that was read last is still where it was."""
        file.seek(self._size - len(self._last_line))
        return bool(file.read(len(self._last_line)) == self._last_line)

    def _add(self, line: bytes) -> None:
        try:
            metrics = json.loads(line)
            iteration = int(metrics.pop("iteration"))
            for name, value in metrics.items():
                curve = self._curves.setdefault(name, LoggedCurve([], []))
                curve.iterations.append(iteration)
                curve.values.append(float(value))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{self._path} is damaged after iteration {self.last} ({error}). Restore it from a copy."
            ) from error
        self.last = iteration
        self._size += len(line)
        self._last_line = line
