"""What makes a process fast that plays or learns."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cores() -> int:
    """Return how many cores this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return found or 1


@contextmanager
def prepared_process(threads: int) -> Iterator[None]:
    """Use ``threads`` torch threads (0: as many as this process may use cores), and set what makes it fast.

    Denormals are flushed to zero. Cycles are collected less often: an iteration makes many thousands of
    records and no cycles, and looking through them took a third of the time of play. All of it belongs to
    the process, so it is put back at the end: whoever trained may need denormals.
    """
    threads_before, thresholds_before = torch.get_num_threads(), gc.get_threshold()
    torch.set_num_threads(threads or cores())
    torch.set_flush_denormal(True)
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_flush_denormal(False)
        gc.set_threshold(*thresholds_before)
