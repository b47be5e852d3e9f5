"""How long work takes, for tests that are marked ``timed``."""

from collections.abc import Callable
from time import process_time
from timeit import timeit


def processor_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the processor time of the quickest of several runs, in seconds: other programs count least in it."""
    return min(timeit(work, number=1, timer=process_time) for _ in range(repeats))
