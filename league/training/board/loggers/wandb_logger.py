"""Weights & Biases (https://docs.wandb.ai). WANDB_MODE, WANDB_PROJECT and its other variables hold as always."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from league.training.board.loggers.interface import PROJECT, Settings


class WandbLogger:
    """One run there. An iteration that was sent before is not taken again: steps only grow."""

    def __init__(self, run: Any) -> None:
        self._run = run

    @property
    def identity(self) -> str:
        """Its id there."""
        return str(self._run.id)

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one iteration as a step."""
        if iteration >= self._run.step:
            self._run.log(dict(metrics), step=iteration)

    def close(self) -> None:
        """Finish; `wandb sync` sends what was logged offline."""
        self._run.finish()


def open_logger(name: str, run_dir: Path, settings: Settings, identity: str | None) -> WandbLogger:
    """Begin a run, or go on with one."""
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=name,
        config=dict(settings),
        id=identity or secrets.token_hex(4),
        resume="allow",
        dir=str(run_dir),
        settings=wandb.Settings(console="off", silent=True),
    )
    return WandbLogger(run)
