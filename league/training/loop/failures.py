"""Failures that stop a run, as sentences that say what is saved and how to continue."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from games.common import plugins
from league.config import CONFIG_FILE, RunConfig
from league.population.storage.full_disk import full_disk_errno
from league.training.checkpoints.checkpoint import checkpoints, finished_iterations
from league.training.checkpoints.run_state import RunState
from league.training.monitors.alarms import Alarm
from learners.update.policy import Policy

_OF_THE_CPU = ("can't allocate memory", "not enough memory")  # in the words of PyTorch's allocators


class RunFailed(RuntimeError):
    """Training stopped: an update failed its checks, a learner died, disk or memory is full, or no reply is legal.

    The message says what to do.
    """


class LearningFailed(RunFailed):
    """Training stopped because of what was learned, not because of the machine: resuming would meet it again."""


def stop_if_going_wrong(config: RunConfig, state: RunState) -> None:
    """Raise LearningFailed if an alarm of ``alarms.stop`` rings."""
    for alarm in (Alarm(*fields) for fields in state.alarms.get("ringing", [])):
        if alarm.name in config.alarms.stop:
            raise LearningFailed(
                f"{alarm} alarms.stop names {alarm.name}, so the run stops here. Everything up to iteration "
                f"{state.iteration} is saved. To continue anyway, resume it with --set alarms.stop=[]."
            )


@contextmanager
def telling_of_a_full_disk(run_dir: Path) -> Iterator[None]:
    """Raise RunFailed where the disk, or the user's quota, is full."""
    try:
        yield
    except Exception as error:
        if (number := full_disk_errno(error)) is None:
            raise
        raise RunFailed(_full_disk(run_dir, number)) from error


@contextmanager
def telling_of_a_moved_run(run_dir: Path) -> Iterator[None]:
    """Raise RunFailed where a run's folder was moved or removed while it trained."""
    try:
        yield
    except Exception as error:
        if (run_dir / CONFIG_FILE).exists():
            raise
        raise RunFailed(
            f"{run_dir} is gone: it was moved or removed while it trained ({type(error).__name__}). What its last "
            "checkpoint holds is saved. To continue it in its new place:\n"
            f"  league train --resume --run-dir NEW_PLACE{plugins.as_options()}"
        ) from error


def _full_disk(run_dir: Path, number: int) -> str:
    """Return what is needed, what is saved, and how to continue."""
    saved = checkpoints(run_dir)
    sentences = [f"There is no room left for {run_dir} ({os.strerror(number)})."]
    if saved:
        newest = max((run_dir / "population").glob("[!.]*"), key=lambda path: path.stat().st_mtime)
        sentences.append(
            f"A checkpoint takes about {_megabytes(saved[-1])} MB and a snapshot {_megabytes(newest)} MB, and "
            f"{shutil.disk_usage(run_dir).free / 1e6:,.1f} MB are free. "
            f"Everything up to iteration {finished_iterations(run_dir)} is saved."
        )
    else:
        sentences.append("Nothing was saved yet.")
    if (run_dir / CONFIG_FILE).is_file():
        folder = shlex.quote(str(run_dir))
        sentences.append(f"Make room, then continue:\n  league train --resume --run-dir {folder}{plugins.as_options()}")
    else:
        sentences.append("Make room, or name another place with --run-dir, and start again.")
    return " ".join(sentences)


def _megabytes(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.1f}"


@contextmanager
def telling_of_memory(config: RunConfig, run_dir: Path, policies: Mapping[str, Policy]) -> Iterator[None]:
    """Raise RunFailed, with settings that need less, where a device is out of memory."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(words in str(error) for words in _OF_THE_CPU):
            raise
        measured = [policy.pass_tokens for policy in policies.values() if policy.pass_tokens]
        raise RunFailed(_full_memory(config, run_dir, str(error), min(measured, default=0))) from error


def _full_memory(config: RunConfig, run_dir: Path, error: str, measured: int) -> str:
    """Return settings that need less; ``measured``: the tokens of a pass that fit at first, 0: not known."""
    optimizer, folder = config.optimizer, shlex.quote(str(run_dir))
    last = f"Everything up to iteration {finished_iterations(run_dir)}" if checkpoints(run_dir) else "Nothing"
    tokens = min(optimizer.micro_batch_tokens, measured or optimizer.micro_batch_tokens)
    advice = [
        f"optimizer.micro_batch_tokens = {max(tokens // 2, 1)} (now {tokens}), which halves the memory of an update's "
        "pass",
    ]
    if not optimizer.checkpointing and config.roles.reply == "free":
        advice.append("optimizer.checkpointing = true")
    advice.append(f"in_flight = {max(config.in_flight // 2, 1)} (now {config.in_flight}), for play")
    devices = " or ".join(sorted(config.devices))
    return (
        f"The memory of {devices} is full ({' '.join(error.split())[:200]}). {last} is saved. "
        f"Set in its {CONFIG_FILE} {'; '.join(advice)}. Then continue:\n"
        f"  league train --resume --run-dir {folder}{plugins.as_options()}"
    )
