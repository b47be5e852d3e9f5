"""Process-wide settings that make play and learning fast."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return count or 1


def available_threads() -> int:
    """Return how many threads this process should use: OMP_NUM_THREADS where it is set, else one for each core.

    Two processes with a thread for each core on the same cores take many times as long as one after the other: every
    parallel section waits for threads that do not run.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # then those of nested sections
    return int(first) if first.isdecimal() and int(first) else available_cores()


@contextmanager
def tuned_process(threads: int) -> Iterator[None]:
    """Use ``threads`` torch threads (0: ``available_threads``), and tune the process for speed.

    Denormals are flushed to zero. Reference cycles are collected less often: an iteration makes many thousands of
    records and no cycles, and searching them took a third of the time of play. All settings are process-wide, so the
    former ones are restored at the end: the caller may need denormals.
    """
    threads_before, thresholds_before = torch.get_num_threads(), gc.get_threshold()
    torch.set_num_threads(threads or available_threads())
    torch.set_flush_denormal(True)
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_flush_denormal(False)
        gc.set_threshold(*thresholds_before)
