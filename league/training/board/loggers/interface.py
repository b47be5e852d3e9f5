"""What a logger is, and how the loggers of a run are opened."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from games.common.errors import UsageError, unknown_name
from games.common.files import atomic_write

PROJECT = "league"  # what a service groups runs by, where its own environment variable does not say otherwise
IDENTITIES_FILE = "loggers.json"  # in a run's folder: what each service calls the run, so that a resumed one goes on

Settings = Mapping[str, bool | float | str]  # of the run, by their dotted names


class Logger(Protocol):
    """A service that a run's metrics go to."""

    @property
    def identity(self) -> str:
        """What the service calls this run; it is opened again by that."""
        ...

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one iteration. One that was sent before, by a process that was killed, may come again."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class LoggerKind(NamedTuple):
    """One kind of logger."""

    package: str  # that has to be installed
    module: str  # of this room; its ``open_logger(name, settings, identity)`` makes the logger


LOGGERS = {
    "wandb": LoggerKind("wandb", "league.training.board.loggers.wandb_logger"),
    "mlflow": LoggerKind("mlflow", "league.training.board.loggers.mlflow_logger"),
    "trackio": LoggerKind("trackio", "league.training.board.loggers.trackio_logger"),
}


def check_loggers(names: Sequence[str]) -> None:
    """Raise UsageError, with what to install, for loggers that are unknown or not installed."""
    for name in names:
        if name not in LOGGERS:
            raise unknown_name("logger", name, LOGGERS, "Set board.loggers.")
        package = LOGGERS[name].package
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise UsageError(
                f"board.loggers names {name!r}, but {package} is not installed. Install it: "
                f"pip install 'llm-league[{name}]', or leave it out; TensorBoard is always there."
            )


def open_loggers(
    names: Sequence[str], run_dir: Path, settings: Settings, earlier: Callable[[], Iterable[Mapping[str, float]]] = list
) -> list[Logger]:
    """Return a run's loggers, opened; a run that is resumed goes on under the identity that it had.

    One that the run did not have before is sent what ``earlier`` returns: the metrics of each iteration so far, with
    the key "iteration".
    """
    path = run_dir / IDENTITIES_FILE
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    loggers: list[Logger] = []
    for name in names:
        make: Callable[[str, Path, Settings, str | None], Logger] = importlib.import_module(
            LOGGERS[name].module
        ).open_logger
        loggers.append(make(run_dir.resolve().name, run_dir, settings, known.get(name)))
        if name not in known:
            for line in earlier():
                loggers[-1].write(int(line["iteration"]), {key: line[key] for key in line if key != "iteration"})
        known[name] = loggers[-1].identity
    if names:
        atomic_write(path, json.dumps(known, indent=1) + "\n")
    return loggers
