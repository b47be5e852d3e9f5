"""Which of a cluster's processes are silent: stopped, spinning, or on a machine that is gone.

A death is reported by the cluster; a process that hangs would be waited for forever. So each process that has work is
asked for a sign of life every so often, which it gives alongside its work. An object that counts its ``progress`` must
get on, too: one that spins answers and gets nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from arena.cluster.interface import Cluster, PendingCall, WatchedHandle, WorkerDied, WorkerId

LONGEST_INTERVAL = 10.0  # seconds between two questions


@dataclass(slots=True)
class _Watched:
    """A process that has work."""

    worker: WatchedHandle
    heard: float  # when it last gave a new sign of life
    asked: float
    call: PendingCall | None = None  # the question that it has not answered
    progress: Any = None


class SignsOfLife:
    """Asks processes for signs of life. ``clock`` returns seconds."""

    def __init__(self, cluster: Cluster, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster, self.timeout, self._clock = cluster, timeout, clock
        self.interval = min(timeout / 4, LONGEST_INTERVAL)
        self._watched: dict[WorkerId, _Watched] = {}
        self._looked = clock()

    def expect(self, worker: WatchedHandle) -> None:
        """Watch a process from now on: it has been given work."""
        now = self._clock()
        if worker.worker_id not in self._watched:
            self._watched[worker.worker_id] = _Watched(worker, now, now)
        self._watched[worker.worker_id].heard = now

    @property
    def calls(self) -> list[PendingCall]:
        """The questions that are not answered."""
        return [one.call for one in self._watched.values() if one.call is not None]

    def silent(self, done: Iterable[PendingCall], busy: Collection[WorkerId]) -> list[WorkerId]:
        """Take what is answered, ask again, and return who was silent for too long; only ``busy`` ones are watched on.

        A pause of this process, as by Ctrl-Z, is nobody's silence.
        """
        now, answered = self._clock(), set(done)
        if now - self._looked > max(4 * self.interval, 1.0):
            for one in self._watched.values():
                one.heard = now
        self._looked = now
        self._watched = {worker_id: one for worker_id, one in self._watched.items() if worker_id in busy}
        for one in self._watched.values():
            if one.call in answered:
                self._hear(one, now)
            if one.call is None and now - one.asked >= self.interval:
                one.call, one.asked = one.worker.beat(), now
        lost = [worker_id for worker_id, one in self._watched.items() if now - one.heard > self.timeout]
        for worker_id in lost:
            del self._watched[worker_id]
        return lost

    def _hear(self, one: _Watched, now: float) -> None:
        call, one.call = one.call, None
        assert call is not None
        try:
            progress = self._cluster.get(call)
        except WorkerDied:  # its work's call says so, too
            return
        if progress is None or progress != one.progress:
            one.progress, one.heard = progress, now
