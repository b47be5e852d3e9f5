"""Keeps measurements however the process ends: one JSON document, written again after every case."""

from __future__ import annotations

import gc
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report.provenance import provenance
from games.common.files import atomic_write

Figures = dict[str, Any]
GRACE = 2.0  # seconds that are kept back, to write and to end


class CutOff(BaseException):
    """The time is over, or the process was asked to end: no part may catch this as one of its errors."""


class Setup(NamedTuple):
    """What all parts are measured on."""

    device: str  # torch's name of it
    tiny: bool  # sizes that only show that everything runs


class Part(NamedTuple):
    """One part of the measurement."""

    name: str
    share: float  # of the time, against the shares of the parts still to come
    run: Callable[[Setup, Report], None]
    needs: tuple[str, ...] = ()  # libraries beyond torch, transformers, tokenizers, safetensors and numpy


class Report:
    """What one part has measured so far, and the time it has left."""

    def __init__(self, session: Session, name: str, until: float) -> None:
        self._session, self._until = session, until
        self.figures: Figures = session.document["parts"].setdefault(name, {})
        self.limits: Figures = session.document["parts"].get("limits", {})

    @property
    def left(self) -> float:
        """Seconds until this part should end."""
        return self._until - time.perf_counter()

    def add(self, **figures: Any) -> None:
        """Store figures of the part."""
        self.figures.update(figures)
        self._session.write()

    def case(self, **figures: Any) -> None:
        """Store one of several cases."""
        self.figures.setdefault("cases", []).append(figures)
        self._session.write()

    def note(self, text: str) -> None:
        """Store a sentence on what was not measured, and print it."""
        self.figures.setdefault("notes", []).append(text)
        print(f"  {text}", file=sys.stderr, flush=True)
        self._session.write()

    def affords(self, name: str) -> bool:
        """Return whether there is time for a case; say so if not."""
        if self.left > 0.0:
            return True
        self.note(f"{name}: not measured, because this part's time was over.")
        return False

    @contextmanager
    def telling_of_failures(self, case: str) -> Iterator[None]:
        """Let the part go on after a case that fails or does not fit into memory, which the report says."""
        import torch

        try:
            yield
        except torch.OutOfMemoryError as error:
            self.note(f"{case}: out of memory ({str(error).splitlines()[0]})")
        except RuntimeError as error:
            self.note(f"{case}: failed ({str(error).splitlines()[0][:300]})")
            self.add(failed=True)
        finally:
            gc.collect()  # adapters and their base refer to each other
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()


class Session:
    """The whole measurement. ``path`` None: nothing is stored, only ``document`` filled."""

    def __init__(self, setup: Setup, minutes: float, path: Path | None, device: Figures) -> None:
        self.setup, self._path = setup, path
        self._end = time.perf_counter() + 60.0 * minutes - (0.0 if setup.tiny else GRACE)
        self.document: Figures = {**provenance(), "device": device, "minutes": minutes, "tiny": setup.tiny}
        self.document |= {"state": "running", "parts": {}}

    def write(self) -> None:
        """Write the document atomically."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(self._path, json.dumps(self.document, indent=2) + "\n")

    def run(self, parts: Iterable[Part]) -> bool:
        """Run the parts in order; return False if it was cut off. A part that fails says so, and the next begins."""
        left = list(parts)
        signal.setitimer(signal.ITIMER_REAL, max(self._end - time.perf_counter(), 0.1))
        before = {number: signal.signal(number, _cut_off) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
        try:
            while left:
                now = time.perf_counter()
                share = left[0].share / sum(part.share for part in left)
                self._run(left[0], now + share * (self._end - now))
                del left[0]
            self.document["state"] = "complete"
        except (CutOff, KeyboardInterrupt) as reason:
            names = ", ".join(part.name for part in left)
            self.document["state"] = f"cut off ({reason}) in {left[0].name}; not finished: {names}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            for number, handler in before.items():
                signal.signal(number, handler)
            self.write()
        return not left

    def _run(self, part: Part, until: float) -> None:
        report, start = Report(self, part.name, until), time.perf_counter()
        missing = [library for library in part.needs if find_spec(library) is None]
        print(f"{part.name} ({max(report.left, 0.0):,.0f} s)", file=sys.stderr, flush=True)
        try:
            if missing:
                report.note(f"Not measured: {' and '.join(missing)} not installed.")
            else:
                part.run(self.setup, report)
        except Exception as error:  # noqa: BLE001  # it is told, and the other parts are worth measuring
            report.note(f"Failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            report.add(failed=True)
        report.add(seconds=time.perf_counter() - start)


def _cut_off(number: int, _frame: object) -> None:
    reasons = {signal.SIGALRM: "the time was over", signal.SIGINT: "interrupted"}
    raise CutOff(reasons.get(signal.Signals(number), "told to end"))
