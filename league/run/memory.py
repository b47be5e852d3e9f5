"""A device whose memory is full: told with the numbers that take less, and how to go on with them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from league.config import RunConfig
from league.config.load import CONFIG_FILE
from league.run.failures import RunFailed
from league.storage.checkpoint import checkpoints, finished_iterations

_OF_THE_CPU = ("can't allocate memory", "not enough memory")  # in the words of PyTorch's allocators


@contextmanager
def telling_of_memory(config: RunConfig, run_dir: Path) -> Iterator[None]:
    """Raise RunFailed, with the settings that take less, where a device has no memory left."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(words in str(error) for words in _OF_THE_CPU):
            raise
        raise RunFailed(_sentences(config, run_dir, str(error))) from error


def _sentences(config: RunConfig, run_dir: Path, error: str) -> str:
    optimizer, folder = config.optimizer, shlex.quote(str(run_dir))
    last = f"Everything up to iteration {finished_iterations(run_dir)}" if checkpoints(run_dir) else "Nothing"
    advice = [
        f"optimizer.micro_batch_tokens = {max(optimizer.micro_batch_tokens // 2, 1)} (now "
        f"{optimizer.micro_batch_tokens}), which halves what a pass of an update takes",
    ]
    if not optimizer.checkpointing and config.roles.reply == "free":
        advice.append("optimizer.checkpointing = true")
    advice.append(f"in_flight = {max(config.in_flight // 2, 1)} (now {config.in_flight}), for play")
    return (
        f"The memory of {config.model.device} is full ({' '.join(error.split())[:200]}). {last} is saved. "
        f"Set in its {CONFIG_FILE} {'; '.join(advice)}. Then go on:\n  league train --resume --run-dir {folder}"
    )
