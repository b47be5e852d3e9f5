"""Process-wide settings that make play and learning fast."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from games.common.limits import GC_THRESHOLDS

ROWS, WIDTH, PRODUCTS, REPEATS = 256, 512, 4, 5  # of the measurement of threads: about 3 ms a product on one core
NEARLY = 1.1
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


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


def measured_threads(cores: int) -> int:
    """Return how many threads, up to one for each core, compute fastest now: the fewest that are nearly as fast.

    Measured are products and sums such as a language model's, with 1, 2, 4, ... threads in turn, several times.
    """
    before, counts = torch.get_num_threads(), sorted({cores, *(1 << n for n in range(cores.bit_length()))})
    states, weights = torch.ones(ROWS, WIDTH), torch.ones(WIDTH, 4 * WIDTH)
    seconds: dict[int, float] = {}
    try:
        for _ in range(REPEATS if len(counts) > 1 else 0):
            for threads in counts:
                torch.set_num_threads(threads)
                torch.softmax(states @ weights, -1)  # the threads are there after this
                start = time.perf_counter()
                for _ in range(PRODUCTS):
                    torch.softmax(states @ weights, -1)
                seconds[threads] = min(seconds.get(threads, float("inf")), time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    return fewest_nearly_best(seconds) if seconds else 1


def fewest_nearly_best(seconds: Mapping[int, float]) -> int:
    """Return the fewest threads that take at most ``NEARLY`` of the least seconds."""
    return min(threads for threads, taken in seconds.items() if taken <= NEARLY * min(seconds.values()))


def give_memory_back(size: int = 1 << 16) -> bool:
    """Let freed tensors of at least so many bytes go back to the system at once; return whether that can be set.

    glibc's malloc keeps what was freed, and the more the larger it was: where layers are gathered and dropped in turn,
    a process takes several times what it holds. It stays so until the process ends, and allocating takes longer.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, size))
    except (AttributeError, OSError, TypeError):  # another libc
        return False


@contextmanager
def tuned_process(threads: int) -> Iterator[None]:
    """Use ``threads`` torch threads (0: ``available_threads``), and tune the process for speed.

    Denormals are flushed to zero. Reference cycles are collected less often: an iteration makes many thousands of
    records and no cycles, and searching them took a third of the time of play. All settings are process-wide, so the
    former ones are restored at the end: the caller may need denormals.
    """
    threads_before, thresholds_before = torch.get_num_threads(), gc.get_threshold()
    torch.set_num_threads(threads if threads > 0 else available_threads())
    torch.set_flush_denormal(True)
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_flush_denormal(False)
        gc.set_threshold(*thresholds_before)
