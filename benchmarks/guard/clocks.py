"""The clocks of the guard, which other processes on the machine hardly move."""

from __future__ import annotations

import resource
import time
from pathlib import Path

_WAITED = Path("/proc/thread-self/schedstat")  # Linux: nanoseconds run, nanoseconds that it could have run, and slices


def own_time() -> float:
    """Return seconds in which this thread ran or slept: not those in which another process had its processor.

    Where the system does not tell, they are seconds on the clock.
    """
    while True:
        before, now = _waited(), time.perf_counter()
        if _waited() == before:  # or it lost the processor between the two
            return now - before


def _waited() -> float:
    """Return the seconds for which this thread could have run, and another did; 0 where that is not known."""
    try:
        return int(_WAITED.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def children_time() -> float:
    """Return the seconds for which processes that this one started, and waited for, have run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
