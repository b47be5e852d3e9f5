"""The workers of one spec in a cluster: which of them are ready, and a replacement for each that dies."""

from __future__ import annotations

from collections.abc import Iterable

from arena.cluster.interface import Cluster, PendingCall, WatchedHandle, WorkerDied, WorkerId, WorkerSpec
from arena.errors import EngineError

CLOSE_TIMEOUT = 20.0  # seconds for all workers' ``close``
MAX_START_FAILURES = 3  # of one worker in a row


class WorkerGroup:
    """Workers of one spec. A worker is used only after it has answered a ping."""

    def __init__(self, cluster: Cluster, spec: WorkerSpec, count: int) -> None:
        self._cluster, self.spec = cluster, spec
        self._workers = [cluster.start(spec, number, 0) for number in range(count)]
        self._pings: dict[PendingCall, int] = {}  # unanswered, with the worker's number
        self._start_failures = [0] * count  # by worker, in a row
        self.ping()

    def __len__(self) -> int:
        return len(self._workers)

    def __getitem__(self, number: int) -> WatchedHandle:
        return self._workers[number]

    @property
    def pings(self) -> list[PendingCall]:
        """The pings that are not answered yet."""
        return list(self._pings)

    @property
    def ready(self) -> list[int]:
        """The numbers of the workers that have answered."""
        not_ready = set(self._pings.values())
        return [number for number in range(len(self._workers)) if number not in not_ready]

    def ping(self) -> None:
        """Ping all ready workers, so that none that died unnoticed is given work."""
        for number in self.ready:
            self._pings[self._workers[number].call("ready")] = number

    def mark_ready(self, calls: Iterable[PendingCall]) -> None:
        """Mark the workers whose pings are among these finished calls as ready; replace those that died.

        Raises EngineError for a worker that cannot be started, with the reason of its last death.
        """
        for call in calls:
            if call not in self._pings:
                continue
            number = self._pings.pop(call)
            try:
                self._workers[number].place = self._cluster.get(call)
            except WorkerDied as death:
                self._start_failures[number] += 1
                if self._start_failures[number] >= MAX_START_FAILURES:
                    raise EngineError(
                        f"{str(death.worker_id).capitalize()} of the cluster died {MAX_START_FAILURES} times before it "
                        f"could do anything, the last time because: {death.reason}"
                    ) from death
                self._restart(number)
            else:
                self._start_failures[number] = 0

    def replace(self, worker_id: WorkerId) -> bool:
        """Replace a worker that died, and return True, unless it has been replaced already."""
        if self._workers[worker_id.number].worker_id != worker_id:
            return False
        self._restart(worker_id.number)
        return True

    def stop(self) -> None:
        """Close the workers that have ever answered, then kill all processes."""
        closing = [worker.call("close") for worker in self._workers if worker.place is not None]
        while closing and (done := self._cluster.wait(closing, CLOSE_TIMEOUT)):
            closing = [call for call in closing if call not in done]
        for worker in self._workers:
            worker.stop()

    def _restart(self, number: int) -> None:
        old = self._workers[number]
        old.stop()
        self._workers[number] = new = self._cluster.start(self.spec, number, old.worker_id.restarts + 1)
        self._pings = {call: pinged for call, pinged in self._pings.items() if pinged != number}
        self._pings[new.call("ready")] = number
