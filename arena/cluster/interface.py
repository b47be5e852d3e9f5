"""The interface of a cluster's workers for the driver process, independent of any library.

``arena.cluster.ray_cluster`` is the one implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from arena.errors import LostEngine

Ref = Any  # a reference to a value in the cluster's object store


class WorkerId(NamedTuple):
    """A worker's identity. A replacement has the same kind and number, and one restart more."""

    kind: str  # "worker", "engine", "learner"
    number: int
    restarts: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


class WorkerDied(LostEngine):
    """A worker's process ended before its work was done."""

    def __init__(self, worker_id: WorkerId, reason: str) -> None:
        super().__init__(worker_id, reason)
        self.worker_id, self.reason = worker_id, reason

    def __str__(self) -> str:
        return f"{self.worker_id} died ({self.reason})"


class WorkerSpec(NamedTuple):
    """The object that a worker's process holds, and the resources that it takes."""

    kind: str
    make: Callable[..., object]
    arguments: tuple[object, ...]
    cpus: float
    gpus: float = 0.0
    streams: bool = False  # runs many calls of ``submit`` concurrently; otherwise one call after the other
    on_driver: bool = False  # on the driver's machine
    bundles: tuple[int, ...] = ()  # the reserved bundle of each worker by number; empty: any machine
    calls: int = 1  # calls that run at once, each in its own thread; not for one that streams


class Resources(NamedTuple):
    """What a machine has, or a bundle reserves on one."""

    cpus: float
    gpus: float


class PendingCall(NamedTuple):
    """A method call under way."""

    ref: Ref
    worker_id: WorkerId


class WorkerHandle(Protocol):
    """An object in a process of the cluster."""

    @property
    def worker_id(self) -> WorkerId:
        """The worker's identity."""
        ...

    @property
    def handle(self) -> Any:
        """A handle through which other workers call it."""
        ...

    def call(self, method: str, *arguments: object) -> PendingCall:
        """Start a method. An argument that is a ``Ref`` is resolved to its value; one nested in an argument is not.

        ``ready`` returns the process's place as soon as it runs, without making its object. ``close`` calls the
        object's method of that name, if the object exists and has one.
        """
        ...

    def stop(self) -> None:
        """Kill the process, if it still runs, also one that is stopped."""
        ...


class WatchedHandle(WorkerHandle, Protocol):
    """A handle of a process that answers alongside its calls."""

    place: Any  # what ``ready`` has returned: where the process runs; None before

    def beat(self) -> PendingCall:
        """Ask for a sign of life, which the process gives alongside its calls: its object's ``progress``, None
        without.
        """
        ...


class Cluster(Protocol):
    """A place where workers run."""

    def start(self, spec: WorkerSpec, number: int, restarts: int) -> WatchedHandle:
        """Return a starting worker; its first call begins once it has been placed."""
        ...

    def put(self, value: object) -> Ref:
        """Store a value where every worker can get it, for as long as a reference to it exists."""
        ...

    def get(self, call: PendingCall) -> Any:
        """Wait for a call and return its result. Raises WorkerDied, or the call's own exception."""
        ...

    def wait(self, calls: Sequence[PendingCall], timeout: float | None) -> list[PendingCall]:
        """Wait until a call is done; return all that are. Empty after ``timeout`` seconds (None: no timeout)."""
        ...
