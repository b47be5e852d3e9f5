"""Time on a device that works asynchronously, and which kernels take it."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

CLASSES = {  # of kernels, by a part of the name; the first that fits
    "attention": ("flash", "fmha", "attention", "attn"),
    "products": ("gemm", "cutlass", "matmul", "nvjet", "cublas", "::mm", "addmm", "bmm", "baddbmm", "linear"),
    "optimiser": ("multi_tensor", "adam", "lerp", "addcdiv", "addcmul", "foreach"),
    "softmax": ("softmax", "logsumexp", "cumsum", "searchsorted", "scan"),
    "gather": ("index", "gather", "scatter", "embedding", "sort"),
    "copies": ("memcpy", "memset", "copy", "cat", "clone", "fill", "zero"),
    "elementwise": ("elementwise", "vectorized", "triton", "reduce", "norm", "mul", "add", "sub", "div", "silu", "pow"),
}


def synchronize(device: str) -> None:
    """Wait until the device has finished all its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], object], device: str) -> float:
    """Return the seconds of one run, the device's work included."""
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start


def best_seconds(run: Callable[[], object], device: str, repeats: int) -> float:
    """Return the least seconds of some runs, after one that warms up."""
    run()
    return min(seconds(run, device) for _ in range(repeats))


def peak_memory(device: str) -> float | None:
    """Return the most bytes that tensors took on the device since ``forget_peak``; None on a CPU."""
    return float(torch.cuda.max_memory_allocated(device)) if device.startswith("cuda") else None


def forget_peak(device: str) -> None:
    """Reset ``peak_memory``."""
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def kernel_shares(run: Callable[[], object], device: str) -> dict[str, float]:
    """Return the share of a run's time by class of kernels; on a GPU also ``idle``, when it had nothing to do.

    On a CPU the kernels are PyTorch's operators.
    """
    on_gpu = device.startswith("cuda")
    # To record operators beside a GPU's kernels slows down their launch, which would count as idle.
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiled:
        elapsed = seconds(run, device)
    kind, field = ("CUDA", "self_device_time_total") if on_gpu else ("CPU", "self_cpu_time_total")
    # An operator is said to take its kernels' time too, and so is a named stretch of the program: only kernels count.
    averages: list[Any] = list(profiled.key_averages())
    events = [e for e in averages if e.device_type.name == kind and not getattr(e, "is_user_annotation", False)]
    times = [(str(event.key), float(getattr(event, field)) / 1e6) for event in events]
    return shares_of(times, elapsed if on_gpu else None)


@contextmanager
def busy_share(device: str) -> Iterator[list[float]]:
    """Yield a list that holds afterwards the share of the time in which a GPU ran a kernel, as nvidia-smi sees it.

    It stays empty on a CPU, and where nvidia-smi is not found.
    """
    shares: list[float] = []
    index = device.partition(":")[2] or "0"
    command = ["nvidia-smi", "-i", index, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    with tempfile.TemporaryFile("w+") as output:
        try:
            process = subprocess.Popen(command, stdout=output) if device.startswith("cuda") else None
        except OSError:
            process = None
        try:
            yield shares
        finally:
            if process is not None:
                process.kill()
                process.wait()
                output.seek(0)
                shares += mean_share(output.read())


def mean_share(percentages: str) -> list[float]:
    """Return the mean of nvidia-smi's percentages, one a line, as a share; nothing if there are none."""
    found = [int(line) / 100 for line in percentages.splitlines() if line.strip().isdecimal()]
    return [sum(found) / len(found)] if found else []


def shares_of(times: Iterable[tuple[str, Any]], elapsed: float | None) -> dict[str, float]:
    """Return the share of each class in kernels' times, or in the time that ``elapsed``, with what is ``idle``."""
    sums: dict[str, float] = {}
    for name, spent in times:
        kind = kernel_class(name)
        sums[kind] = sums.get(kind, 0.0) + spent
    total = elapsed or sum(sums.values()) or 1.0
    shares = {kind: spent / total for kind, spent in sorted(sums.items()) if spent}
    return shares | ({} if elapsed is None else {"idle": max(1.0 - sum(shares.values()), 0.0)})


def kernel_class(name: str) -> str:
    """Return the class of a kernel or operator."""
    lower = name.lower()
    return next((kind for kind, words in CLASSES.items() if any(word in lower for word in words)), "other")
