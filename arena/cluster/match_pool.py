"""Plays matches in chunks on the workers of a cluster, and plays a chunk again when a worker dies.

A chunk is some consecutive requests. Idle workers get the next chunk, and it goes to the engine with the fewest chunks,
so slow workers and engines get fewer. A worker that takes several calls at once is given its next chunk while it plays
(``arena.cluster.fed_play``), except beside a chunk over which a process has died: which of the two it was could not be
told. A chunk counts once, when it has come back complete; a chunk whose worker or
engine died is played again, and its matches come out the same, since their seeds are in their requests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from arena.cluster.interface import Cluster, PendingCall, WorkerDied, WorkerId, WorkerSpec
from arena.cluster.worker_group import WorkerGroup
from arena.errors import EngineError
from arena.records import Episode, MatchRequest

MIN_CHUNK_SIZE = 16  # matches, where no chunk size is given
MAX_DEATHS = 3  # of workers and engines over one chunk
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


class _AssignedChunk(NamedTuple):
    """A chunk under way."""

    chunk: MatchChunk
    worker_id: WorkerId
    engine: int  # the engine's number, or the worker's where it has its own engine


class MatchPool:
    """Workers and engines that persist from one batch of matches to the next."""

    def __init__(
        self, cluster: Cluster, specs: PoolSpec, *, chunk_size: int | None, start_timeout: float = START_TIMEOUT
    ) -> None:
        """Start all workers; a chunk has ``chunk_size`` matches (None: a worker's share in 1 + ``calls`` chunks)."""
        self._cluster, self._chunk_size, self._start_timeout = cluster, chunk_size, start_timeout
        self._workers = WorkerGroup(cluster, specs.worker, specs.workers)
        self._engines = WorkerGroup(cluster, specs.engine, specs.engines) if specs.engine else None
        self._remote_players = WorkerGroup(cluster, specs.remote_players, 1) if specs.remote_players else None
        self._groups = [group for group in (self._workers, self._engines, self._remote_players) if group is not None]
        self._assigned: dict[PendingCall, _AssignedChunk] = {}
        self.tokens = 0  # of language models' prompts and replies so far
        self.matches_by_engine: Counter[int] = Counter()

    def play(self, requests: Sequence[MatchRequest], weights: Mapping[str, Any]) -> list[Episode]:
        """Play all matches; return their episodes in the order of the requests.

        ``weights`` maps players to what workers need to load their weights; a worker gets the entries of its chunk's
        players. Raises EngineError for a chunk over which ``MAX_DEATHS`` processes died, and if no worker can be
        started; an error within a match is raised as it is.
        """
        parts = (1 + self._workers.spec.calls) * len(self._workers)
        chunks = split(requests, self._chunk_size or max(-(-len(requests) // parts), MIN_CHUNK_SIZE))
        waiting, deaths = deque(chunks), Counter[int]()
        episodes: dict[int, list[Episode]] = {}  # by chunk
        for group in self._groups:
            group.ping()
        try:
            while len(episodes) < len(chunks):
                self._assign(waiting, weights, deaths)
                for call in self._wait():
                    chunk, _, engine = self._assigned.pop(call)
                    try:
                        played: PlayedChunk = self._cluster.get(call)
                    except WorkerDied as death:
                        self._replace(death.worker_id)
                        deaths[chunk.number] += 1
                        _check_deaths(chunk, deaths[chunk.number], death)
                        waiting.appendleft(chunk)
                    else:
                        episodes[chunk.number] = played.episodes
                        self.tokens += played.tokens
                        self.matches_by_engine[engine] += len(chunk.requests)
        finally:
            self._abandon()
        return [episode for chunk in chunks for episode in episodes[chunk.number]]

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

    def _assign(self, waiting: deque[MatchChunk], weights: Mapping[str, Any], deaths: Mapping[int, int]) -> None:
        """Give the next chunks to workers that take one, the idle ones first, as long as engines have room."""
        if self._remote_players is not None and not self._remote_players.ready:
            return
        for calls, number in product(range(self._workers.spec.calls), self._workers.ready):
            if not waiting:
                return
            present = [one.chunk for one in self._assigned.values() if one.worker_id.number == number]
            if len(present) > calls or (present and any(deaths.get(c.number) for c in (waiting[0], *present))):
                continue
            engine = self._free_engine()
            if self._engines is not None and engine is None:
                return
            chunk, worker = waiting.popleft(), self._workers[number]
            engine_handle = None if engine is None or self._engines is None else self._engines[engine].handle
            remote_players = None if self._remote_players is None else self._remote_players[0].handle
            chunk_weights = {player: weights[player] for player in chunk.players if player in weights}
            call = worker.call("play", list(chunk.requests), chunk_weights, engine_handle, remote_players)
            self._assigned[call] = _AssignedChunk(chunk, worker.worker_id, number if engine is None else engine)

    def _free_engine(self) -> int | None:
        """Return the ready engine with the fewest chunks; None if none is ready or all have their share of workers."""
        if self._engines is None:
            return None
        load = Counter(assigned.engine for assigned in self._assigned.values())
        room = -(-len(self._workers) // len(self._engines))
        free = [number for number in self._engines.ready if load[number] < room]
        return min(free, key=lambda number: load[number], default=None)

    def _wait(self) -> list[PendingCall]:
        """Wait until a call is done; return the finished calls of chunks."""
        pings = [call for group in self._groups for call in group.pings]
        timeout = None if self._assigned else self._start_timeout
        done = self._cluster.wait([*self._assigned, *pings], timeout)
        if not done:
            names = ", ".join(sorted({str(call.worker_id) for call in pings}))
            raise EngineError(
                f"No worker of the cluster could play for {self._start_timeout:.0f} s: {names} did not start. What is "
                "left of the cluster may be too small, or busy with something else (`ray status` says); what the "
                "configuration asks of it is in the table [cluster]."
            )
        for group in self._groups:
            group.mark_ready(call for call in done if call not in self._assigned)
        return [call for call in done if call in self._assigned]

    def _replace(self, worker_id: WorkerId) -> None:
        for group in self._groups:
            if group.spec.kind == worker_id.kind:
                group.replace(worker_id)

    def _abandon(self) -> None:
        """Replace the workers that still play a chunk after an error or Ctrl-C: its result is not needed."""
        for assigned in self._assigned.values():
            self._workers.replace(assigned.worker_id)
        self._assigned.clear()


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
            f"Matches {first} to {last} were begun {deaths} times, and each time a worker that played them died, the "
            f"last time {death}. Too little memory is the usual reason: set fewer matches for a chunk "
            "(cluster.matches)."
        ) from death
