"""A Ray cluster (https://docs.ray.io): workers are actors, values lie in its object store. The only importer of ray."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, TypeVar

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports to Ray's makers
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # its messages on deaths would overwrite the live view
os.environ.setdefault("RAY_worker_niceness", "0")  # of a local cluster: playing is the machine's main job
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's future default; without it Ray warns

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RaySystemError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from arena.cluster.interface import PendingCall, Ref, Resources, WatchedHandle, WorkerDied, WorkerId, WorkerSpec
from arena.cluster.messages import RemoteReply, RemoteRequest, to_remote_requests, to_replies
from arena.records import Reply, ReplyRequest
from games.common.errors import UsageError

LOCAL = "local"  # the address that starts a cluster on this machine
RESERVE_TIMEOUT = 60.0  # seconds, for bundles that the cluster has but other jobs hold
_WATCH = "watch"  # the concurrency group in which a process answers alongside its calls
_T = TypeVar("_T")
_LOST = (RayActorError, ObjectLostError, RaySystemError)


class RayCluster:
    """A Ray cluster that this process has joined; a context manager that leaves it, which ends its workers."""

    def __init__(self, address: str, cpus: int) -> None:
        """Join the cluster at ``address`` ("auto": on this machine), or start one with ``cpus`` ("local").

        Raises UsageError if there is none.
        """
        if address.startswith("ray://"):
            raise UsageError(
                f"--cluster {address}: a run cannot be controlled from outside its cluster. Start it on one of "
                "the cluster's machines, with --cluster auto."
            )
        started = {"num_cpus": cpus} if address == LOCAL else {}
        joined_before = ray.is_initialized()
        try:
            if address not in (LOCAL, "auto"):
                _probe(address)
            ray.init(
                address=address,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **started,
            )
        except Exception as error:  # where a node does not start, Ray raises nothing narrower
            if not joined_before:
                ray.shutdown()  # what has started of it
            raise _not_joined(address, error) from error
        self._driver_node = ray.get_runtime_context().get_node_id()
        self._group: PlacementGroup | None = None

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()

    def nodes(self) -> list[Resources]:
        """Return the resources of each machine that is alive."""
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return [Resources(resources.get("CPU", 0.0), resources.get("GPU", 0.0)) for resources in alive]

    def reserve(self, bundles: Sequence[Resources]) -> None:
        """Reserve bundles, each on one machine; ``WorkerSpec.bundles`` has their indices.

        Raises UsageError on a timeout.
        """
        amounts = [{"CPU": bundle.cpus, "GPU": bundle.gpus} for bundle in bundles]
        self._group = placement_group([{k: v for k, v in part.items() if v} for part in amounts], strategy="PACK")
        try:
            ray.get(self._group.ready(), timeout=RESERVE_TIMEOUT)
        except GetTimeoutError:
            raise UsageError(
                f"The cluster's machines are large enough, but {len(bundles)} bundles with the GPUs that the table "
                f"[cluster] asks for did not become free in {RESERVE_TIMEOUT:.0f} s. `ray status` shows what holds "
                "them."
            ) from None

    def start(self, spec: WorkerSpec, number: int, restarts: int) -> WatchedHandle:
        """See ``Cluster``."""
        worker_id = WorkerId(spec.kind, number, restarts)
        base = _StreamingActor if spec.streams else _Actor
        strategy: Any = "SPREAD"
        if spec.on_driver:
            strategy = NodeAffinitySchedulingStrategy(self._driver_node, soft=False)
        elif spec.bundles:
            strategy = PlacementGroupSchedulingStrategy(self._group, spec.bundles[number])
        options = {"num_cpus": spec.cpus, "num_gpus": spec.gpus, "scheduling_strategy": strategy}
        if spec.calls > 1:
            options["max_concurrency"] = spec.calls
        actor_class = type(spec.kind.capitalize(), (base,), {})  # its name is what `ray status` and `ps` show
        groups = {} if spec.streams else {"concurrency_groups": {_WATCH: 1}}  # a loop answers by itself
        remote: Any = ray.remote(**groups)(actor_class) if groups else ray.remote(actor_class)
        return RayWorkerHandle(worker_id, remote.options(**options).remote(spec.make, spec.arguments))

    def put(self, value: object) -> Ref:
        """See ``Cluster``."""
        return ray.put(value)

    def get(self, call: PendingCall) -> Any:
        """See ``Cluster``."""
        return _get(call.ref, call.worker_id)

    def wait(self, calls: Sequence[PendingCall], timeout: float | None) -> list[PendingCall]:
        """See ``Cluster``."""
        by_ref = {call.ref: call for call in calls}
        done, pending = ray.wait(list(by_ref), num_returns=1, timeout=timeout)
        if pending:
            done += ray.wait(pending, num_returns=len(pending), timeout=0)[0]
        return [by_ref[ref] for ref in done]


class RayWorkerHandle:
    """See ``WorkerHandle``."""

    def __init__(self, worker_id: WorkerId, actor: Any) -> None:
        self._worker_id, self._actor = worker_id, actor
        self.place: tuple[str, int] | None = None

    @property
    def worker_id(self) -> WorkerId:
        """See ``WorkerHandle``."""
        return self._worker_id

    @property
    def handle(self) -> RemoteActor:
        """See ``WorkerHandle``."""
        return RemoteActor(self.worker_id, self._actor)

    def call(self, method: str, *arguments: object) -> PendingCall:
        """See ``WorkerHandle``."""
        return PendingCall(self._actor.call.remote(method, *arguments), self.worker_id)

    def beat(self) -> PendingCall:
        """See ``WorkerHandle``."""
        return PendingCall(self._actor.beat.remote(), self.worker_id)

    def stop(self) -> None:
        """See ``WorkerHandle``. Ray asks the process itself to end, which one that is stopped does not hear."""
        ray.kill(self._actor)
        if self.place is not None and self.place[0] == socket.gethostname():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.place[1], signal.SIGKILL)


class RemoteActor(NamedTuple):
    """A worker as other workers call it."""

    worker_id: WorkerId
    actor: Any

    def call(self, method: str, *arguments: object) -> Any:
        """Return a method's result. Raises as ``Cluster.get``."""
        return _get(self.actor.call.remote(method, *arguments), self.worker_id)

    def submit(self, request: RemoteRequest) -> Future[RemoteReply]:
        """Submit a request; the future raises as ``Cluster.get``."""
        return _then(self.actor.submit.remote(request).future(), lambda done: _unwrap(done.result, self.worker_id))


class RemoteEngine:
    """A sampler whose engine is another worker that replies to batches."""

    def __init__(self, actor: RemoteActor) -> None:
        self._actor = actor

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """See ``Sampler``."""
        remote_replies: list[RemoteReply] = self._actor.call("answer", to_remote_requests(requests))
        return to_replies(requests, remote_replies)


class RemoteStream:
    """A sampler whose engine is another worker that replies to each request as soon as it can."""

    def __init__(self, actor: RemoteActor) -> None:
        self._actor = actor

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. The request's generator moves on with the reply: a match draws nothing before that."""
        remote_reply = self._actor.submit(to_remote_requests([request])[0])
        return _then(remote_reply, lambda done: to_replies([request], [done.result()])[0])


def _then(first: Future[Any], convert: Callable[[Future[Any]], _T]) -> Future[_T]:
    """Return a future of what ``convert`` returns, or raises, for another future once that is done."""
    second: Future[_T] = Future()

    def resolve(done: Future[Any]) -> None:
        try:
            second.set_result(convert(done))
        except Exception as error:  # noqa: BLE001  # the future's owner raises it
            second.set_exception(error)

    second.set_running_or_notify_cancel()
    first.add_done_callback(resolve)
    return second


def node_address() -> str:
    """Return the address at which other machines of the cluster reach this one. For use within a worker."""
    return str(ray.util.get_node_ip_address())


def fetch(ref: Ref) -> Any:
    """Return a value of the object store. For use within a worker."""
    return ray.get(ref)


class _Actor:
    """A process of the cluster that holds an object, which is made at the first call that needs it."""

    def __init__(self, make: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._make: Callable[[], object] = lambda: make(*arguments)
        self._instance: Any = None
        self._making = Lock()

    def call(self, method: str, *arguments: object) -> Any:
        """Return the result of the object's method; ``ready`` and ``close`` do not make the object."""
        if method == "ready":
            return socket.gethostname(), os.getpid()
        if method == "close" and not hasattr(self._instance, "close"):
            return None
        return getattr(self._object(), method)(*arguments)

    @ray.method(concurrency_group=_WATCH)  # type: ignore[untyped-decorator]
    def beat(self) -> Any:
        """Return the object's progress, from a thread of its own."""
        return getattr(self._instance, "progress", None)

    def _object(self) -> Any:
        with self._making:
            if self._instance is None:
                self._instance = self._make()
        return self._instance


class _StreamingActor(_Actor):
    """An actor whose object replies to many requests concurrently."""

    async def beat(self) -> Any:
        """Return None, between two steps of its loop."""
        return None

    async def submit(self, request: RemoteRequest) -> RemoteReply:
        """Return the object's reply."""
        remote_reply: RemoteReply = await self._object().submit(request)
        return remote_reply


def _not_joined(address: str, error: Exception) -> UsageError:
    """Return the error of an address at which there is no cluster, or of one that does not start here."""
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
    if address == LOCAL:
        return UsageError(
            f"--cluster {LOCAL}: Ray could not start a cluster on this machine ({reason}). Its logs, in "
            "/tmp/ray unless RAY_TMPDIR names another folder, say more. Try again when the machine is less busy, or "
            "leave --cluster out."
        )
    return UsageError(
        f"--cluster {address}: no Ray cluster could be joined there ({reason}). Start one (`ray start --head`) "
        "and give the address that it prints, or auto on one of its machines; --cluster local needs none."
    )


def _probe(address: str) -> None:
    """Raise OSError or ValueError where no server listens: Ray itself would try for two minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("an address is HOST:PORT, auto or local")
    socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()


def _get(ref: Ref, worker_id: WorkerId) -> Any:
    return _unwrap(lambda: ray.get(ref), worker_id)


def _unwrap(get: Callable[[], Any], worker_id: WorkerId) -> Any:
    """Return a call's result. Raises WorkerDied, or the call's own exception without Ray's wrapper."""
    try:
        return get()
    except RayTaskError as error:
        raise error.cause from error
    except _LOST as error:
        raise WorkerDied(worker_id, _reason(str(error))) from error


def _reason(message: str) -> str:
    """Return the cause of a death from Ray's long message."""
    line = " ".join(message.split())
    return line.rpartition("Worker exit detail: ")[2].partition(" Some common causes")[0].rstrip(". ")
