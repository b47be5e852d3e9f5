"""Configure, train and resume runs from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from games.common.destinations import folder_to_fill
from league.cli.python.runs import TrainingRun
from league.cli.training.train import new_run_dir
from league.config import RunConfig
from league.config.load import load
from league.training.loop.readiness import check_start

if TYPE_CHECKING:
    from arena.programs.sampler import Program
    from league.training.loop.session import Watch


def load_config(source: str | Path, *overrides: str, games: Sequence[str] = ()) -> RunConfig:
    """Return the configuration of a preset or a TOML file, with overrides such as "credit.rule=mars", in order.

    ``games`` take the place of its own, with matches that fit their length.
    Raises UsageError, with a sentence for each mistake.
    """
    return load(str(source), overrides, games=games)


def train(
    config: RunConfig,
    run_dir: str | Path | None = None,
    *,
    watch: Watch | None = None,
    cluster: str = "",
    program: Program | None = None,
) -> TrainingRun:
    """Train a new run, and return it when it is complete or was stopped.

    It is kept in ``run_dir``, by default a new folder in ``runs/``. After each iteration ``watch`` is called with its
    number and its metrics by name (0: the measurements before the first one); if it returns True the run stops when
    that iteration is saved. ``cluster`` is a Ray cluster's address. ``program`` takes the turns of the roles in
    ``programs.roles``: it is called with a seat, calls ``seat.complete()``, and returns which of the answers to play.

    Raises UsageError for a configuration that cannot train here or a folder that is in use, and RunFailed as
    ``league.training.loop.session.train``.
    """
    folder = new_run_dir("run", None if run_dir is None else str(run_dir))
    check_start(config, cluster)
    from league.training.loop import session  # torch is slow to import

    session.train(config, folder, cluster, watch, program)
    return TrainingRun(folder)


def resume(
    run_dir: str | Path, *, watch: Watch | None = None, cluster: str = "", program: Program | None = None
) -> TrainingRun:
    """Resume a run that was stopped or killed, bit for bit; ``watch`` and ``program`` as in ``train``.

    Raises UsageError if there is no such run or another process trains it, and RunFailed as ``train``.
    """
    from league.training.loop import session

    session.resume(folder_to_fill(str(run_dir), "run_dir"), cluster, watch=watch, program=program)
    return TrainingRun(Path(run_dir))
