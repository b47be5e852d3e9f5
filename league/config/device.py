"""The device and the size of a pass that a run takes where its configuration leaves them to the machine.

Known without torch, which is slow to import and which no process may have used on a GPU before it forks.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from league.config.run import RunConfig

CPU_TOKENS = 1024  # in a pass of an update: larger ones are no faster there, and take more memory
MOST_TOKENS = 32_768
USUAL_MEMORY = 80 * 10**9  # bytes of a GPU that does not tell its own, as that of another machine
# What a token of a pass takes: under checkpointing every layer's input and the insides of one (Qwen3-4B: 11 GB for
# 32,768 tokens), else the insides of all layers (SmolLM2 in float32: about 17,000 numbers in each of 30 layers).
BYTES_CHECKPOINTED, BYTES_KEPT = 350_000, 2_000_000
SHARE = 0.25  # of a GPU's memory for what a pass takes, beside weights, optimiser, and the engine's keys and values


class Gpu(NamedTuple):
    """A GPU of this machine."""

    name: str
    memory: int  # bytes


def chosen(config: RunConfig, gpu: Gpu | None) -> RunConfig:
    """Return the configuration with what it leaves to the machine: ``auto`` for a device, 0 tokens for a pass.

    vLLM needs a GPU, so a run that it plays has one, here or on the machines of a cluster, or is refused later.
    """
    model, optimizer = config.model, config.optimizer
    device = model.device
    if device == "auto":
        device = "cuda" if gpu is not None or config.engine.kind == "vllm" else "cpu"
    tokens = optimizer.micro_batch_tokens or (CPU_TOKENS if device == "cpu" else gpu_tokens(config, gpu))
    return config.model_copy(
        update={
            "model": model.model_copy(update={"device": device}),
            "optimizer": optimizer.model_copy(update={"micro_batch_tokens": tokens}),
        }
    )


def gpu_tokens(config: RunConfig, gpu: Gpu | None) -> int:
    """Return the greatest power of two of tokens whose pass fits into its share of a GPU's memory."""
    each = BYTES_CHECKPOINTED if config.optimizer.checkpointing else BYTES_KEPT
    tokens = max(int(SHARE * (gpu.memory if gpu is not None else USUAL_MEMORY)) // each, 1)
    return int(min(1 << (tokens.bit_length() - 1), MOST_TOKENS))


def told(config: RunConfig, gpu: Gpu | None) -> str:
    """Return a sentence on what was chosen."""
    threads = config.threads or os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1
    found = f"{gpu.name}, {gpu.memory / 1e9:.0f} GB" if gpu is not None else "no GPU was found"
    return (
        f"Chosen for this machine ({found}): device {config.model.device}, {config.model.dtype}, {threads} threads, "
        f"{config.optimizer.micro_batch_tokens:,} tokens in a pass of an update."
    )


def find_gpu() -> Gpu | None:
    """Return the NVIDIA GPU of this machine with the least memory; None where there is none that answers."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") or not may_have_gpu():
        return None
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return least(process.stdout)


def least(listed: str) -> Gpu | None:
    """Return the GPU with the least memory of those that nvidia-smi lists, a line each: name, mebibytes."""
    gpus = []
    for line in listed.splitlines():
        name, _, memory = line.rpartition(",")
        if memory.strip().isdecimal():
            gpus.append(Gpu(name.strip(), int(memory) << 20))
    return min(gpus, key=lambda gpu: gpu.memory, default=None)


def may_have_gpu() -> bool:
    """Return False where torch can find none: it is built for the CPU, or built for CUDA where there is no driver."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    built_for = Path(torch.origin).with_name("version.py").read_text(encoding="utf-8")
    if re.search(r"^hip\b.*= '", built_for, re.MULTILINE):
        return True
    if not re.search(r"^cuda\b.*= '", built_for, re.MULTILINE):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")  # finds the driver without waking it, which a fork would not survive
    except OSError:
        return sys.platform != "linux"
    return True
