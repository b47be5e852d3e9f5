"""Heartbeats: a process that is stopped or starved stops beating, and the process that waits for it notices.

The exit status shows that a process has died. A process that hangs, stopped by SIGSTOP or in a system call that does
not return, would otherwise be waited for forever.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

INTERVAL = 0.5  # seconds between two beats
SILENCE = 30.0  # seconds without a beat until a process counts as lost
PAUSE = 5.0  # seconds between two checks, above which the checking process was itself suspended, as by Ctrl-Z


class Heartbeat:
    """A counter in memory that two processes share; pass it to the child process."""

    def __init__(self, context: BaseContext) -> None:
        self._beats = context.RawValue(ctypes.c_uint64, 0)

    def start(self) -> None:
        """Start a thread that counts as long as this process runs."""
        threading.Thread(target=self._beat, daemon=True).start()

    def count(self) -> int:
        """Return the number of beats so far."""
        return int(self._beats.value)

    def _beat(self) -> None:
        while True:
            self._beats.value += 1
            time.sleep(INTERVAL)


class Listener:
    """Measures how long a heartbeat has been silent. ``clock`` returns seconds."""

    def __init__(self, heartbeat: Heartbeat, clock: Callable[[], float] = time.monotonic) -> None:
        self._heartbeat, self._clock = heartbeat, clock
        self._count, self._heard, self._looked = -1, 0.0, 0.0

    def silence(self) -> float:
        """Return the seconds since the last beat, not counting this process's own pauses; 0 before the first beat."""
        now, count = self._clock(), self._heartbeat.count()
        if not count or count != self._count or now - self._looked > PAUSE:
            self._count, self._heard = count, now
        self._looked = now
        return now - self._heard


class Watch:
    """Kills child processes that hang, so that a collective operation fails instead of waiting for them.

    It checks in a separate thread, because the waiting thread is inside a library.
    """

    def __init__(self) -> None:
        self._watched: list[tuple[BaseProcess, Listener]] = []
        self.killed: list[str] = []  # a sentence for each

    def add(self, process: BaseProcess, heartbeat: Heartbeat) -> None:
        """Watch one more process."""
        self._watched.append((process, Listener(heartbeat)))

    def start(self) -> None:
        """Start checking, until this process ends."""
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while self._watched:
            for process, listener in list(self._watched):
                if listener.silence() > SILENCE:
                    self.killed.append(gone_silent("A process that makes updates with this one", process.pid))
                    process.kill()
                    self._watched.remove((process, listener))
            time.sleep(INTERVAL)


def gone_silent(who: str, process_id: int | None) -> str:
    """Return the sentence about a process that counts as lost."""
    return (
        f"{who} (process {process_id}) has given no sign of life for {SILENCE:.0f} s: it was stopped, or this machine "
        "is too busy to let it run."
    )
