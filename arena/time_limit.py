"""A time limit for foreign code that runs in this thread, so that no thread is left behind.

On a main thread the alarm clock interrupts it, even where it sleeps or waits for a file or a server. On any other
thread, and on systems without that clock, a trace function looks at the time before every line. Neither interrupts
what C code does without asking Python, such as one long query: then the function is given up when that returns.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")

_AGAIN = 1.0  # seconds after which a function that has swallowed its interruption is interrupted again


class TimeLimitError(TimeoutError):
    """A function took longer than it was given; none of it is left running."""


class _OutOfTime(BaseException):
    """Interrupts the function. No Exception, so that what it catches does not hold it."""


def call_within(seconds: float, function: Callable[[], _T]) -> _T:
    """Return what the function returns, or raise what it raises; TimeLimitError if that takes too long."""
    has_alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    try:
        return (_with_alarm if has_alarm else _with_trace)(seconds, function)
    except _OutOfTime:
        raise TimeLimitError(f"no answer within {seconds:g} seconds") from None


def _with_alarm(seconds: float, function: Callable[[], _T]) -> _T:
    """Call the function; its interruption is the only one, whenever it comes. A former alarm rings afterwards."""

    def interrupt(*_: object) -> None:
        raise _OutOfTime

    began, handler = time.monotonic(), signal.signal(signal.SIGALRM, interrupt)
    former, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        try:
            return function()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except _OutOfTime:
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # it may have come before the line above
        raise
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if former:
            left = former - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6), interval)


def _with_trace(seconds: float, function: Callable[[], _T]) -> _T:
    """Call the function; a debugger's trace of this thread rests meanwhile."""
    end = time.monotonic() + seconds

    def trace(_frame: FrameType, _event: str, _argument: Any) -> Any:
        if time.monotonic() > end:
            raise _OutOfTime
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        return function()
    finally:
        sys.settrace(former)
