"""Plays matches in pieces on the workers of a cluster, whoever of them dies.

A piece is some consecutive requests. Workers that have nothing to do get the next one, and it goes to the engine with
the most free room, so slow ones get less. A piece counts once, when it has come back whole; one whose worker
or engine died is played again, and its matches come out the same, since their seeds are theirs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from arena.cluster import Call, Cluster, Died, Name, Post
from arena.errors import EngineError
from arena.records import Episode, MatchRequest
from arena.staff import Staff

LEAST = 16  # matches that are worth a piece, where nobody says how many
MOST_DEATHS = 3  # over one piece
PATIENCE = 300.0  # seconds until one of the cluster's processes must be there when none is


class Played(NamedTuple):
    """What a worker brings back."""

    episodes: list[Episode]  # in the order of the requests
    tokens: int  # prompt and reply tokens of language models


class Piece(NamedTuple):
    """Matches that one worker plays."""

    number: int
    requests: Sequence[MatchRequest]
    players: frozenset[str]  # who sits in them, and in those that they may open


class Posts(NamedTuple):
    """Who is needed. Without engines of their own, every worker brings one."""

    worker: Post  # has ``play(requests, weights, engine, guests)`` -> Played
    workers: int
    engine: Post | None = None  # what ``arena.ray_pool`` makes of it is handed to workers
    engines: int = 0
    guests: Post | None = None  # one process for players whose engine there can be only one of


class _Given(NamedTuple):
    """A piece under way."""

    piece: Piece
    worker: Name
    engine: int  # whose number counts: the engine's, or the worker's that brings its own


class Pool:
    """Workers and engines that stay from one batch of matches to the next."""

    def __init__(self, cluster: Cluster, posts: Posts, *, matches: int | None, patience: float = PATIENCE) -> None:
        """Start all; ``matches`` are in a piece (None: half of a worker's share)."""
        self._cluster, self._matches, self._patience = cluster, matches, patience
        self._workers = Staff(cluster, posts.worker, posts.workers)
        self._engines = Staff(cluster, posts.engine, posts.engines) if posts.engine else None
        self._guests = Staff(cluster, posts.guests, 1) if posts.guests else None
        self._staffs = [staff for staff in (self._workers, self._engines, self._guests) if staff is not None]
        self._under_way: dict[Call, _Given] = {}
        self.tokens = 0  # of language models' replies so far
        self.matches_by_engine: Counter[int] = Counter()

    def play(self, requests: Sequence[MatchRequest], weights: Mapping[str, Any]) -> list[Episode]:
        """Play all matches; return their episodes in the order of the requests.

        ``weights`` are what workers are told of players' weights; of those that sit in its matches, a piece's has it.
        Raises EngineError for a piece that kills ``MOST_DEATHS`` times whoever plays it, and if nobody is left to
        play; and what goes wrong in a match, as it was raised.
        """
        pieces = cut(requests, self._matches or max(-(-len(requests) // (2 * len(self._workers))), LEAST))
        waiting, deaths = deque(pieces), Counter[int]()
        came: dict[int, list[Episode]] = {}
        for staff in self._staffs:
            staff.roll_call()
        try:
            while len(came) < len(pieces):
                self._give(waiting, weights)
                for call in self._wait():
                    given = self._under_way.pop(call)
                    try:
                        played: Played = self._cluster.get(call)
                    except Died as death:
                        self._replace(death.name)
                        deaths[given.piece.number] += 1
                        _check_deaths(given.piece, deaths[given.piece.number], death)
                        waiting.appendleft(given.piece)
                    else:
                        came[given.piece.number] = played.episodes
                        self.tokens += played.tokens
                        self.matches_by_engine[given.engine] += len(given.piece.requests)
        finally:
            self._abandon()
        return [episode for piece in pieces for episode in came[piece.number]]

    def ask(self, method: str, *arguments: object) -> Any:
        """Return what a method of one engine, or of a worker that brings its own, gives; of another if one dies."""
        staff = self._engines or self._workers
        for last in range(MOST_DEATHS):
            staff.roll_call()
            while not (there := staff.there):
                self._wait()
            call = staff[there[0]].call(method, *arguments)
            try:
                return self._cluster.get(call)
            except Died as death:
                self._replace(death.name)
                if last == MOST_DEATHS - 1:
                    raise EngineError(f"{MOST_DEATHS} times, who was asked for {method} died: {death}.") from death
        raise AssertionError

    def guests(self, method: str) -> Any:
        """Return what a method of the guests' process gives. Raises Died."""
        if self._guests is None:
            raise ValueError("this pool has no guests")
        return self._cluster.get(self._guests[0].call(method))

    def close(self) -> None:
        """End all processes."""
        for staff in self._staffs:
            staff.dismiss()

    def _give(self, waiting: deque[Piece], weights: Mapping[str, Any]) -> None:
        """Give the next pieces to workers that have none, as long as engines have room."""
        busy = {given.worker.number for given in self._under_way.values()}
        if self._guests is not None and not self._guests.there:
            return
        for number in self._workers.there:
            if number in busy or not waiting:
                continue
            engine = self._free_engine()
            if self._engines is not None and engine is None:
                return
            piece, worker = waiting.popleft(), self._workers[number]
            reached = None if engine is None or self._engines is None else self._engines[engine].handle
            hosts = None if self._guests is None else self._guests[0].handle
            own = {player: weights[player] for player in piece.players if player in weights}
            call = worker.call("play", list(piece.requests), own, reached, hosts)
            self._under_way[call] = _Given(piece, worker.name, number if engine is None else engine)

    def _free_engine(self) -> int | None:
        """Return the engine that has the fewest pieces; None if all have their share of the workers, or none is."""
        if self._engines is None:
            return None
        load = Counter(given.engine for given in self._under_way.values())
        room = -(-len(self._workers) // len(self._engines))
        free = [number for number in self._engines.there if load[number] < room]
        return min(free, key=lambda number: load[number], default=None)

    def _wait(self) -> list[Call]:
        """Wait until something is done; return the pieces that came back or were lost."""
        starting = [call for staff in self._staffs for call in staff.starting]
        seconds = None if self._under_way else self._patience
        done = self._cluster.done([*self._under_way, *starting], seconds)
        if not done:
            waited = ", ".join(sorted({str(call.name) for call in starting}))
            raise EngineError(
                f"Nobody in the cluster could play for {self._patience:.0f} s: {waited} did not start. What is left of "
                "the cluster may be too small, or busy with something else (`ray status` says); what the configuration "
                "asks of it is in the table [cluster]."
            )
        for staff in self._staffs:
            staff.arrived(call for call in done if call not in self._under_way)
        return [call for call in done if call in self._under_way]

    def _replace(self, name: Name) -> None:
        for staff in self._staffs:
            if staff.post.kind == name.kind:
                staff.replace(name)

    def _abandon(self) -> None:
        """Let nobody go on with a piece that nobody waits for: after an error, or Ctrl-C."""
        for given in self._under_way.values():
            self._workers.replace(given.worker)
        self._under_way.clear()


def cut(requests: Sequence[MatchRequest], matches: int) -> list[Piece]:
    """Return the requests in pieces of ``matches``, the last one shorter."""
    starts = range(0, len(requests), matches)
    return [
        Piece(number, own, frozenset(_players(own)))
        for number, own in enumerate(requests[start : start + matches] for start in starts)
    ]


def _players(requests: Iterable[MatchRequest]) -> Iterable[str]:
    for request in requests:
        yield from request.players
        for cast in request.cast:
            yield from cast.players


def _check_deaths(piece: Piece, deaths: int, death: Died) -> None:
    if deaths >= MOST_DEATHS:
        first, last = piece.requests[0].index, piece.requests[-1].index
        raise EngineError(
            f"Matches {first} to {last} were begun {deaths} times, and each time one who played them died, the last "
            f"time {death}. Too little memory is the usual reason: let a piece have fewer matches (cluster.matches)."
        ) from death
