"""Plays matches in chunks on the workers of a cluster, and plays a chunk again when a worker dies.

A chunk is some consecutive requests. Idle workers get the next chunk, and it goes to the engine with the fewest chunks,
so slow workers and engines get fewer. A worker that takes several calls at once is given its next chunk while it plays
(``arena.cluster.fed_play``), except beside a chunk over which a process has died: which of the two it was could not be
told. A chunk counts once, when it has come back complete; a chunk whose worker or
engine died is played again, and its matches come out the same, since their seeds are in their requests.

Where an engine holds few weights at once (``PoolSpec.holds``), chunks are of matches with the same players, and an
engine gets those whose weights it holds. A player that is met often has several chunks: when the engines that hold it
are full, another takes one, and holds it then.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, product
from math import inf
from typing import Any, NamedTuple

from arena.cluster.interface import Cluster, PendingCall, WorkerDied, WorkerId, WorkerSpec
from arena.cluster.signs_of_life import SignsOfLife
from arena.cluster.worker_group import WorkerGroup
from arena.errors import EngineError
from arena.records import Episode, MatchRequest

MIN_CHUNK_SIZE = 16  # matches, where no chunk size is given
MAX_DEATHS = 3  # of workers and engines over one chunk
FLOWING_CHUNK = 4  # matches, in a stream: a chunk ends with its longest match
PATIENCE = 0.05  # seconds that a stream waits for a chunk before it looks whether a learner is done
TIMEOUT = 600.0  # seconds without a sign of life after which a process that has work is replaced
START_TIMEOUT = 300.0  # seconds until a process of the cluster must be ready when none is


class PlayedChunk(NamedTuple):
    """A worker's result for a chunk."""

    episodes: list[Episode]  # in the order of the requests
    tokens: int  # prompt and reply tokens of language models


class MatchChunk(NamedTuple):
    """Consecutive matches that one worker plays."""

    number: int
    requests: Sequence[MatchRequest]
    players: frozenset[str]  # of these matches and of the submatches that they may open


class PoolSpec(NamedTuple):
    """The workers of a pool. Without ``engine``, every worker has an engine in its own process."""

    worker: WorkerSpec  # has ``play(requests, weights, engine, remote_players)`` -> PlayedChunk
    workers: int
    engine: WorkerSpec | None = None  # workers are given its ``WorkerHandle.handle``
    engines: int = 0
    remote_players: WorkerSpec | None = None  # one process for players whose engine must exist only once
    holds: int | None = None  # players whose weights an engine holds at once; None: all


@dataclass(slots=True)
class _Job:
    """Matches that one call of ``play`` or ``flow`` asked for."""

    weights_of: Callable[[frozenset[str]], Mapping[str, Any]]
    ends: bool  # with what waits; False: more may come
    waiting: deque[MatchChunk] = field(default_factory=deque)
    deaths: Counter[int] = field(default_factory=Counter)  # of processes, by chunk
    ended: dict[int, list[Episode]] = field(default_factory=dict)  # by chunk


class _AssignedChunk(NamedTuple):
    """A chunk under way."""

    chunk: MatchChunk
    worker_id: WorkerId
    engine: int  # the engine's number, or the worker's where it has its own engine
    job: _Job


class MatchPool:
    """Workers and engines that persist from one batch of matches to the next."""

    def __init__(
        self,
        cluster: Cluster,
        specs: PoolSpec,
        *,
        chunk_size: int | None,
        start_timeout: float = START_TIMEOUT,
        timeout: float = TIMEOUT,
    ) -> None:
        """Start all workers; a chunk has ``chunk_size`` matches (None: a worker's share in 1 + ``calls`` chunks).

        A worker or engine that gives no sign of life for ``timeout`` seconds is ended and replaced.
        """
        self._cluster, self._chunk_size, self._start_timeout = cluster, chunk_size, start_timeout
        self._workers = WorkerGroup(cluster, specs.worker, specs.workers)
        self._engines = WorkerGroup(cluster, specs.engine, specs.engines) if specs.engine else None
        self._remote_players = WorkerGroup(cluster, specs.remote_players, 1) if specs.remote_players else None
        self._groups = [group for group in (self._workers, self._engines, self._remote_players) if group is not None]
        self._assigned: dict[PendingCall, _AssignedChunk] = {}
        self._holds, self._held = specs.holds, defaultdict[int, dict[str, None]](dict)  # by engine, the oldest first
        self._signs = SignsOfLife(cluster, timeout)
        self.tokens = 0  # of language models' prompts and replies so far
        self.matches_by_engine: Counter[int] = Counter()
        self.replaced: Counter[str] = Counter()  # workers and engines that died or fell silent, by kind

    def play(self, requests: Sequence[MatchRequest], weights: Mapping[str, Any]) -> list[Episode]:
        """Play all matches; return their episodes in the order of the requests.

        ``weights`` maps players to what workers need to load their weights; a worker gets the entries of its chunk's
        players. Raises EngineError for a chunk over which ``MAX_DEATHS`` processes died, and if no worker can be
        started; an error within a match is raised as it is.
        """
        parts = (1 + self._workers.spec.calls) * len(self._workers)
        order = sorted(
            range(len(requests)), key=lambda place: sorted(_players([requests[place]])) if self._holds else ()
        )
        size = self._chunk_size or max(-(-len(requests) // parts), MIN_CHUNK_SIZE)
        chunks = split([requests[place] for place in order], size)
        job = _Job(lambda players: weights, True, deque(chunks))
        for group in self._groups:
            group.ping()
        try:
            while len(job.ended) < len(chunks):
                self._assign(job)
                self._wait()
        finally:
            self._abandon(job)
        played = [episode for chunk in chunks for episode in job.ended[chunk.number]]
        return [episode for _, episode in sorted(zip(order, played, strict=True), key=lambda pair: pair[0])]

    def flow(
        self, requests: Iterator[MatchRequest], weights_of: Callable[[frozenset[str]], Mapping[str, Any]]
    ) -> Iterator[list[Episode]]:
        """Play matches as workers have room, and yield, chunk by chunk, those that have ended; [] every so often.

        The iterator may be exhausted for a time; this one ends when no chunk is under way and none can begin.
        ``weights_of`` returns what ``play`` gets as weights, for some players. Raises as ``play``.
        """
        job, numbers, size = _Job(weights_of, False), count(), self._chunk_size or FLOWING_CHUNK
        for group in self._groups:
            group.ping()
        try:
            while True:
                while len(job.waiting) < self._room() and (part := list(islice(requests, size))):
                    job.waiting.append(MatchChunk(next(numbers), part, frozenset(_players(part))))
                self._assign(job)
                under_way = job.waiting or job.ended or any(one.job is job for one in self._assigned.values())
                if not under_way and self._room() > 0:
                    return
                if not job.ended:
                    self._wait(PATIENCE)
                ended, job.ended = job.ended, {}
                yield [episode for episodes in ended.values() for episode in episodes]
        finally:
            self._abandon(job)

    def _room(self) -> int:
        """Return how many chunks more the ready workers would take."""
        return self._workers.spec.calls * len(self._workers.ready) - len(self._assigned)

    def call_engine(self, method: str, *arguments: object) -> Any:
        """Return the result of a method of one engine, or of one worker with its own; of another one if it dies."""
        group = self._engines or self._workers
        for deaths in range(MAX_DEATHS):
            group.ping()
            while not (ready := group.ready):
                self._wait()
            call = group[ready[0]].call(method, *arguments)
            try:
                return self._cluster.get(call)
            except WorkerDied as death:
                self._replace(death.worker_id)
                if deaths == MAX_DEATHS - 1:
                    raise EngineError(f"The engine died {MAX_DEATHS} times in a call of {method}: {death}.") from death
        raise AssertionError

    def call_remote_players(self, method: str) -> Any:
        """Return the result of a method of the remote players' process. Raises WorkerDied."""
        if self._remote_players is None:
            raise ValueError("this pool has no remote players")
        return self._cluster.get(self._remote_players[0].call(method))

    def close(self) -> None:
        """Stop all workers."""
        for group in self._groups:
            group.stop()

    def _assign(self, job: _Job) -> None:
        """Give the next chunks to workers that take one, the idle ones first, as long as engines have room.

        One that is busy takes no other chunk while a worker has not answered yet, nor of the last chunks of a job, as
        many as there are workers: each of those is for who is idle first.
        """
        if self._remote_players is not None and not self._remote_players.ready:
            return
        waiting, deaths = job.waiting, job.deaths
        most = 1 if self._workers.pings else self._workers.spec.calls
        for calls, number in product(range(most), self._workers.ready):
            if not waiting:
                return
            engine = self._free_engine()
            if self._engines is not None and engine is None:
                return
            chunk, worker = self._next_chunk(waiting, number if engine is None else engine), self._workers[number]
            present = [one.chunk for one in self._assigned.values() if one.worker_id.number == number]
            if len(present) > calls or (present and any(deaths.get(c.number) for c in (chunk, *present))):
                continue
            if present and job.ends and len(waiting) < len(self._workers):
                continue
            waiting.remove(chunk)
            engine_handle = None if engine is None or self._engines is None else self._engines[engine].handle
            remote_players = None if self._remote_players is None else self._remote_players[0].handle
            weights = job.weights_of(chunk.players)
            chunk_weights = {player: weights[player] for player in chunk.players if player in weights}
            call = worker.call("play", list(chunk.requests), chunk_weights, engine_handle, remote_players)
            self._assigned[call] = _AssignedChunk(chunk, worker.worker_id, number if engine is None else engine, job)
            self._hold(number if engine is None else engine, chunk)
            self._signs.expect(worker)
            if self._engines is not None and engine is not None:
                self._signs.expect(self._engines[engine])

    def _free_engine(self) -> int | None:
        """Return the ready engine with the fewest chunks; None if none is ready or all have their share of workers."""
        if self._engines is None:
            return None
        load = Counter(assigned.engine for assigned in self._assigned.values())
        room = -(-len(self._workers) // len(self._engines))
        free = [number for number in self._engines.ready if load[number] < room]
        return min(free, key=lambda number: load[number], default=None)

    def _next_chunk(self, waiting: deque[MatchChunk], engine: int) -> MatchChunk:
        """Return the first chunk of which an engine lacks the fewest weights; of equal ones, what others hold least."""
        if self._holds is None:
            return waiting[0]

        def lacking(chunk: MatchChunk) -> tuple[int, int]:
            missing = chunk.players - self._held[engine].keys()
            return len(missing), sum(player in held for player in missing for held in self._held.values())

        return min(waiting, key=lacking)

    def _hold(self, engine: int, chunk: MatchChunk) -> None:
        """Note that an engine has a chunk's weights now, and what it has no room for any more."""
        held = self._held[engine]
        for player in sorted(chunk.players):
            held.pop(player, None)
            held[player] = None
        for player in list(held)[: -self._holds] if self._holds is not None else list(held):
            del held[player]

    def _wait(self, patience: float | None = None) -> None:
        """Wait until a call is done, for ``patience`` seconds at most; take what chunks came to.

        Without a chunk under way it waits for a worker to start. Raises EngineError if none does.
        """
        pings = [call for group in self._groups for call in group.pings]
        limit = patience if self._assigned else self._start_timeout
        deadline = inf if limit is None else time.monotonic() + limit
        done, lost = list[PendingCall](), list[WorkerId]()
        while not done and not lost:
            if (left := deadline - time.monotonic()) <= 0.0:
                if not self._assigned:
                    self._raise_not_started(pings)
                return
            answered = self._cluster.wait(
                [*self._assigned, *pings, *self._signs.calls], min(left, self._signs.interval)
            )
            done = [call for call in answered if call in self._assigned or call in pings]
            lost = self._signs.silent(answered, self._busy())
        for group in self._groups:
            group.mark_ready(call for call in done if call not in self._assigned)
        for call in done:
            if call in self._assigned:
                self._take(call)
        for worker_id in lost:
            self._lose(worker_id)

    def _raise_not_started(self, pings: Iterable[PendingCall]) -> None:
        names = ", ".join(sorted({str(call.worker_id) for call in pings}))
        raise EngineError(
            f"No worker of the cluster could play for {self._start_timeout:.0f} s: {names} did not start. The "
            "rest of the cluster may be too small or busy with something else (see `ray status`); what the "
            "configuration asks for is in the table [cluster]."
        )

    def _busy(self) -> set[WorkerId]:
        """Return the workers and engines that have work."""
        engines = self._engines
        busy = {one.worker_id for one in self._assigned.values()}
        return busy if engines is None else busy | {engines[one.engine].worker_id for one in self._assigned.values()}

    def _take(self, call: PendingCall) -> None:
        """Take what a chunk came to, or let it be played again."""
        one = self._assigned.pop(call)
        try:
            played: PlayedChunk = self._cluster.get(call)
        except WorkerDied as death:
            self._died(one, death)
        else:
            one.job.ended[one.chunk.number] = played.episodes
            self.tokens += played.tokens
            self.matches_by_engine[one.engine] += len(one.chunk.requests)

    def _died(self, one: _AssignedChunk, death: WorkerDied) -> None:
        """Replace a process that died, and let a chunk that it had a part in be played again."""
        self._replace(death.worker_id)
        one.job.deaths[one.chunk.number] += 1
        _check_deaths(one.chunk, one.job.deaths[one.chunk.number], death)
        one.job.waiting.appendleft(one.chunk)

    def _lose(self, worker_id: WorkerId) -> None:
        """Give up a process that is silent. The cluster reports an engine's end to the workers that wait for it."""
        self._replace(worker_id)
        death = WorkerDied(worker_id, f"it gave no sign of life for {self._signs.timeout:g} s")
        for call in [call for call, one in self._assigned.items() if one.worker_id == worker_id]:
            self._died(self._assigned.pop(call), death)

    def _replace(self, worker_id: WorkerId) -> None:
        for group in self._groups:
            if group.spec.kind == worker_id.kind and group.replace(worker_id):
                self.replaced[worker_id.kind] += 1
                if group is (self._engines or self._workers):
                    self._held.pop(worker_id.number, None)

    def _abandon(self, job: _Job) -> None:
        """Replace the workers that still play a job's chunk after an error or Ctrl-C: its result is not needed."""
        for call in [call for call, one in self._assigned.items() if one.job is job]:
            self._workers.replace(self._assigned.pop(call).worker_id)


def split(requests: Sequence[MatchRequest], chunk_size: int) -> list[MatchChunk]:
    """Return the requests in chunks of ``chunk_size``, the last one shorter."""
    parts = [requests[start : start + chunk_size] for start in range(0, len(requests), chunk_size)]
    return [MatchChunk(number, part, frozenset(_players(part))) for number, part in enumerate(parts)]


def _players(requests: Iterable[MatchRequest]) -> Iterable[str]:
    for request in requests:
        yield from request.players
        for cast in request.cast:
            yield from cast.players


def _check_deaths(chunk: MatchChunk, deaths: int, death: WorkerDied) -> None:
    if deaths >= MAX_DEATHS:
        first, last = chunk.requests[0].index, chunk.requests[-1].index
        raise EngineError(
            f"Matches {first} to {last} were started {deaths} times, and each time the worker that played them died, "
            f"the last time {death}. The usual reason is too little memory: put fewer matches into a chunk "
            "(cluster.matches)."
        ) from death
