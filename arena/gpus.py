"""Lists this machine's GPUs and memory without torch, which is slow to import and must not use a GPU before a fork."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Gpu(NamedTuple):
    """A GPU of this machine."""

    name: str
    memory: int  # bytes


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


def main_memory() -> int:
    """Return the bytes of this machine's main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def multiplies_bfloat16(facts: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this machine's processor has products in bfloat16; False where it does not say."""
    try:
        said = facts.read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^flags\b.*\b(avx512_bf16|amx_bf16)\b", said, re.MULTILINE) is not None


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
