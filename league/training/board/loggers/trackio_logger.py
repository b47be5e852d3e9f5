"""Trackio (https://huggingface.co/docs/trackio), which keeps runs on this machine; TRACKIO_PROJECT groups them."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import trackio

from league.training.board.loggers.interface import PROJECT, Settings


class TrackioLogger:
    """One run there."""

    def __init__(self, run: Any, identity: str) -> None:
        self._run, self._identity = run, identity

    @property
    def identity(self) -> str:
        """Its name there."""
        return self._identity

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one iteration as a step."""
        self._run.log(dict(metrics), step=iteration)

    def close(self) -> None:
        """Write what is left."""
        with redirect_stdout(io.StringIO()):  # it would print where the live view is
            self._run.finish()


def open_logger(name: str, _: Path, settings: Settings, identity: str | None) -> TrackioLogger:
    """Begin a run, or go on with one."""
    project = os.environ.get("TRACKIO_PROJECT", PROJECT)
    called = identity or f"{name}-{os.urandom(3).hex()}"
    alone = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}  # the run's metrics, and nothing else
    with redirect_stdout(io.StringIO()):
        run = trackio.init(project=project, name=called, config=dict(settings), resume="allow", **alone)
    return TrackioLogger(run, called)
