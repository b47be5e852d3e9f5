"""A run's use of time and memory, by phase of the loop, on the run's own clock."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Protocol

PAGES = Path("/proc/self/statm")  # where it exists: memory in pages, the second number is resident memory
PHASES = ("play", "learn", "wait", "evaluate", "watch", "log", "save", "rest")
MIB = 2**20


class PhaseClock:
    """Adds up seconds by phase. A phase within another counts as part of the outer one."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        work: Callable[[], float] = lambda: 0.0,
        peak: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """``work`` returns the FLOPs of this process's models so far, ``peak`` the FLOP/s that they can reach."""
        self.clock, self._work, self._peak = clock, work, peak
        self._worked: dict[str, float] = {}  # FLOPs by phase
        self.started = self._since = clock()
        self.logged = 0.0  # seconds of the phase "log" since the start
        self._seconds: dict[str, float] = {}
        self._memory: dict[str, float] = {}
        self._current: str | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time until the exit as part of a phase."""
        if self._current is not None:
            yield
            return
        self._current, started_at, worked = name, self.clock(), self._work()
        try:
            yield
        finally:
            self._current = None
            seconds = self.clock() - started_at
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
            self._worked[name] = self._worked.get(name, 0.0) + self._work() - worked
            self._memory[name] = max(self._memory.get(name, 0.0), resident_memory() / MIB)
            if name == "log":
                self.logged += seconds

    def metrics(self) -> dict[str, float]:
        """Return each phase's share of the time since the last call, and the memory in use after it, in MiB.

        If this machine has an accelerator, also the peak of its memory so far. ``time/board`` is the share of the whole
        run so far that logging and drawing have taken. ``mfu/play`` and ``mfu/learn`` are the model FLOP
        utilisation of phases whose models run in this process.
        """
        now = self.clock()
        elapsed = max(now - self._since, 1e-9)
        shares = {name: seconds / elapsed for name, seconds in self._seconds.items()}
        shares["rest"] = max(1.0 - sum(shares.values()), 0.0)
        metrics = {f"time/{name}": shares.get(name, 0.0) for name in PHASES if name in shares}
        metrics |= {f"memory/{name}": used for name, used in self._memory.items()}
        metrics |= _accelerator_memory()
        for name in ("play", "learn"):
            if self._worked.get(name):
                metrics[f"mfu/{name}"] = self._worked[name] / max(self._seconds[name], 1e-9) / self._peak()
        metrics["time/board"] = self.logged / max(now - self.started, 1e-9)
        self._since, self._seconds, self._memory, self._worked = now, {}, {}, {}
        return metrics


def clock_of_models(models: Collection[tuple[str, str]]) -> PhaseClock:
    """Return a clock that also reports the models' FLOP utilisation, given a device's peak rate, measured on demand.

    ``models`` are their devices and types; with several, the fastest one's rate counts.
    """
    import torch

    from arena.flops import COUNTED, peak_rate

    def peak() -> float:
        return max(peak_rate(device, dtype, torch.get_num_threads()) for device, dtype in models)

    return PhaseClock(work=lambda: COUNTED.total, peak=peak)


class _HasPhases(Protocol):
    phases: PhaseClock


def counts_as(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for methods of an object with ``phases``: time in the method counts as part of a phase."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def timed(self: _HasPhases, *arguments: Any, **named: Any) -> Any:
            with self.phases.phase(name):
                return method(self, *arguments, **named)

        return timed

    return decorate


def resident_memory() -> float:
    """Return this process's memory in bytes: resident now on Linux, elsewhere the peak so far."""
    if PAGES.exists():
        return float(PAGES.read_text().split()[1]) * resource.getpagesize()
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _accelerator_memory() -> dict[str, float]:
    import torch

    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    return {"memory/accelerator": torch.cuda.max_memory_allocated() / MIB}
