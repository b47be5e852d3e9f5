"""Ctrl-C without loss: the first one asks the loop to stop at the end of its iteration, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """While entered, SIGINT and SIGTERM set ``asked``; a second signal raises KeyboardInterrupt."""

    def __init__(self, on_ask: Callable[[], None]) -> None:
        self.asked = False
        self._on_ask = on_ask
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGINT, signal.SIGTERM):
                self._before[kind] = signal.signal(kind, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signal_kind, handler in self._before.items():
            signal.signal(signal_kind, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._on_ask()
