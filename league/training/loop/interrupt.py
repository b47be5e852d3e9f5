"""Ctrl-C without loss: the first one stops the loop at the end of its iteration, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """While entered, SIGINT and SIGTERM set ``requested``; a second signal raises KeyboardInterrupt.

    Compiled code may make another error of it, as safetensors does; what fails after a second signal was stopped.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        self.requested = False
        self._at_once = False
        self._on_request = on_request
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
        if self._at_once and isinstance(error, Exception):
            raise KeyboardInterrupt from error

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._at_once = True
            raise KeyboardInterrupt
        self.requested = True
        self._on_request()
