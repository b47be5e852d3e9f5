"""A Ray cluster (https://docs.ray.io): members are actors, values lie in its object store. The one place with ray."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers how it is used
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # its words on deaths would write over the run's view
os.environ.setdefault("RAY_worker_niceness", "0")  # of a local cluster: matches are what the machine is wanted for
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as Ray will do; it warns of it otherwise

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RaySystemError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from arena.cluster import Call, Died, Member, Name, Post, Ref, Room
from arena.questions import Answer, Question, received, to_questions
from arena.records import Reply, ReplyRequest
from games.errors import UsageError

LOCAL = "local"  # the address that starts a cluster on this machine
RESERVE_SECONDS = 60.0  # for places that the cluster has but others hold
_LOST = (RayActorError, ObjectLostError, RaySystemError)


class RayCluster:
    """A Ray cluster that this process has joined; a context manager that leaves it, which ends its members."""

    def __init__(self, address: str, cpus: int) -> None:
        """Join the cluster at ``address`` ("auto": that of this machine), or start one with ``cpus`` ("local").

        Raises UsageError if there is none.
        """
        if address.startswith("ray://"):
            raise UsageError(
                f"--cluster {address}: a run cannot be steered from outside of a cluster. Start it on one of the "
                "cluster's machines, with --cluster auto."
            )
        started = {"num_cpus": cpus} if address == LOCAL else {}
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
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise UsageError(
                f"--cluster {address}: no Ray cluster could be joined there ({reason}). Start one (`ray start --head`) "
                "and give the address that it tells, or auto on one of its machines; --cluster local needs none."
            ) from error
        self._here = ray.get_runtime_context().get_node_id()
        self._group: PlacementGroup | None = None

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()

    def nodes(self) -> list[Room]:
        """Return the machines that are there."""
        return [
            Room(one["Resources"].get("CPU", 0.0), one["Resources"].get("GPU", 0.0))
            for one in ray.nodes()
            if one["Alive"]
        ]

    def reserve(self, bundles: Sequence[Room]) -> None:
        """Take places, each on one machine, which posts name by number. Raises UsageError if it takes too long."""
        wanted = [{"CPU": one.cpus, "GPU": one.gpus} for one in bundles]
        self._group = placement_group([{k: v for k, v in one.items() if v} for one in wanted], strategy="PACK")
        try:
            ray.get(self._group.ready(), timeout=RESERVE_SECONDS)
        except GetTimeoutError:
            raise UsageError(
                f"The cluster's machines are large enough, but {len(bundles)} places with the GPUs that the table "
                f"[cluster] asks for did not become free in {RESERVE_SECONDS:.0f} s. `ray status` says who has them."
            ) from None

    def hire(self, post: Post, number: int, term: int) -> Member:
        """See ``Cluster``."""
        name = Name(post.kind, number, term)
        kind = _StreamingActor if post.streams else _Actor
        strategy: Any = "SPREAD"
        if post.here:
            strategy = NodeAffinitySchedulingStrategy(self._here, soft=False)
        elif post.bundles:
            strategy = PlacementGroupSchedulingStrategy(self._group, post.bundles[number])
        options = {"num_cpus": post.cpus, "num_gpus": post.gpus, "scheduling_strategy": strategy}
        title = type(post.kind.capitalize(), (kind,), {})  # what `ray status` and `ps` show
        return RayMember(name, ray.remote(title).options(**options).remote(post.make, post.arguments))

    def put(self, value: object) -> Ref:
        """See ``Cluster``."""
        return ray.put(value)

    def get(self, call: Call) -> Any:
        """See ``Cluster``."""
        return _get(call.ref, call.name)

    def done(self, calls: Sequence[Call], seconds: float | None) -> list[Call]:
        """See ``Cluster``."""
        of = {call.ref: call for call in calls}
        ready, _ = ray.wait(list(of), num_returns=1, timeout=seconds)
        if len(ready) < len(of):
            ready += ray.wait([ref for ref in of if ref not in ready], num_returns=len(of) - len(ready), timeout=0)[0]
        return [of[ref] for ref in ready]


class RayMember:
    """See ``Member``."""

    def __init__(self, name: Name, actor: Any) -> None:
        self._name, self._actor = name, actor

    @property
    def name(self) -> Name:
        """See ``Member``."""
        return self._name

    @property
    def handle(self) -> Reached:
        """How members in other processes reach it."""
        return Reached(self.name, self._actor)

    def call(self, method: str, *arguments: object) -> Call:
        """See ``Member``."""
        return Call(self._actor.call.remote(method, *arguments), self.name)

    def dismiss(self) -> None:
        """See ``Member``."""
        ray.kill(self._actor)


class Reached(NamedTuple):
    """A member as another one has it."""

    name: Name
    actor: Any

    def call(self, method: str, *arguments: object) -> Any:
        """Return what a method gives. Raises as ``Cluster.get``."""
        return _get(self.actor.call.remote(method, *arguments), self.name)

    def submit(self, question: Question) -> Future[Answer]:
        """Begin to answer a question; the future raises as ``Cluster.get``."""
        answer: Future[Answer] = Future()

        def take(came: Any) -> None:
            try:
                answer.set_result(_told(came.result, self.name))
            except Exception as error:  # noqa: BLE001  # the future's owner raises it
                answer.set_exception(error)

        answer.set_running_or_notify_cancel()
        self.actor.submit.remote(question).future().add_done_callback(take)
        return answer


class RemoteEngine:
    """A sampler whose engine is another member, which answers batches."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """See ``Sampler``."""
        answers: list[Answer] = self._reached.call("answer", to_questions(requests))
        return received(requests, answers)


class RemoteStream:
    """A sampler whose engine is another member, which answers as it goes."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``: a match draws nothing before its reply has come, so its generator may wait for it."""
        reply: Future[Reply] = Future()

        def take(came: Future[Answer]) -> None:
            try:
                reply.set_result(received([request], [came.result()])[0])
            except Exception as error:  # noqa: BLE001  # the future's owner raises it
                reply.set_exception(error)

        reply.set_running_or_notify_cancel()
        self._reached.submit(to_questions([request])[0]).add_done_callback(take)
        return reply


def own_address() -> str:
    """Return the address at which other machines of the cluster reach this one, to a member."""
    return str(ray.util.get_node_ip_address())


def fetch(ref: Ref) -> Any:
    """Return a value of the object store, to a member."""
    return ray.get(ref)


class _Actor:
    """A process of the cluster with an object in it, which is made when it is first asked for something."""

    def __init__(self, make: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._make: Callable[[], object] = lambda: make(*arguments)
        self._made: Any = None

    def call(self, method: str, *arguments: object) -> Any:
        """Return what a method of the object gives; ``there`` and ``close`` need none."""
        if method == "there" or (method == "close" and not hasattr(self._made, "close")):
            return None
        return getattr(self._object(), method)(*arguments)

    def _object(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made


class _StreamingActor(_Actor):
    """The same with an object that answers many questions side by side."""

    async def submit(self, question: Question) -> Answer:
        """Return the object's answer."""
        answer: Answer = await self._object().submit(question)
        return answer


def _probe(address: str) -> None:
    """Raise OSError or ValueError where nobody listens: Ray would try for two minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("an address is HOST:PORT, auto or local")
    socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()


def _get(ref: Ref, name: Name) -> Any:
    return _told(lambda: ray.get(ref), name)


def _told(get: Callable[[], Any], name: Name) -> Any:
    """Return what a call gives. Raises Died, or what went wrong in its own words instead of in Ray's."""
    try:
        return get()
    except RayTaskError as error:
        raise error.cause from error
    except _LOST as error:
        raise Died(name, _reason(str(error))) from error


def _reason(text: str) -> str:
    """Return what matters in Ray's words on a death."""
    words = " ".join(text.split())
    return words.rpartition("Worker exit detail: ")[2].partition(" Some common causes")[0].rstrip(". ")
