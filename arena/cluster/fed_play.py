"""Feeds chunks of matches to a worker while it plays.

Played one after the other, every chunk ends with a few long matches, and small batches are slow. So the matches of the
next chunk begin in the places of those that end, in the same batches: the scheduler takes a request when it has room.
A match's result does not depend on that (``arena.scheduler.play``).

All of a worker's play is in one thread of its own, because some of torch's settings hold for a thread only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

from arena.records import Episode, MatchRequest

_T = TypeVar("_T")
Play = Callable[[Iterable[MatchRequest], Callable[[Episode], None]], object]  # the scheduler, with ``on_episode``


class _Chunk(NamedTuple):
    """Matches that one call asked for."""

    requests: Sequence[MatchRequest]
    prepare: Callable[[], object]  # called before the first of them begins
    play: Play
    episodes: dict[int, Episode]  # those that have ended, by their place in the chunk
    result: Future[list[Episode]]

    def finish(self, place: int, episode: Episode) -> None:
        """Take an episode; the result is there with the last one."""
        self.episodes[place] = episode
        if len(self.episodes) == len(self.requests):
            self.result.set_result([self.episodes[number] for number in range(len(self.requests))])


class FedPlay:
    """One thread that plays the chunks of several callers, each of which waits for its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "play")
        self._waiting = SimpleQueue[_Chunk]()

    def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return a function's result, called in the thread between two plays."""
        return self._thread.submit(function, *arguments).result()

    def play(self, requests: Sequence[MatchRequest], prepare: Callable[[], object], play: Play) -> list[Episode]:
        """Return the episodes of a chunk in the order of its requests; raises what ``prepare`` or the play raises.

        If nothing is being played, ``play`` is called with the requests and those of chunks that come meanwhile.
        Otherwise ``prepare`` is called while another chunk is played, and the matches begin there; what ends that play
        with an error, ends this call with it. So chunks that are asked for at the same time need the same players, of
        the same weights.
        """
        if not requests:
            return []
        chunk = _Chunk(requests, prepare, play, {}, Future())
        self._waiting.put(chunk)
        self._thread.submit(self._play_waiting)
        return chunk.result.result()

    def close(self) -> None:
        """End the thread once it is idle."""
        self._thread.shutdown()

    def _play_waiting(self) -> None:
        """Play the oldest waiting chunk, and those that come meanwhile; an earlier play may have taken it."""
        feed = _Feed(self._waiting)
        try:
            chunk = self._waiting.get_nowait()
        except Empty:
            return
        try:
            feed.begin(chunk)
            chunk.play(feed, feed.finish)
        except BaseException as error:  # noqa: BLE001  # the callers raise it
            feed.fail(error)


class _Feed:
    """The requests of the chunks in one play; after its end it may continue when another chunk has come."""

    def __init__(self, waiting: SimpleQueue[_Chunk]) -> None:
        self._waiting = waiting
        self._next: Iterator[tuple[int, MatchRequest]] = iter(())
        self._chunks: list[_Chunk] = []
        # Equal requests have equal episodes, so any of their places may take any of them.
        self._places: defaultdict[MatchRequest, list[tuple[_Chunk, int]]] = defaultdict(list)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MatchRequest:
        while True:
            for place, request in self._next:
                self._places[request].append((self._chunks[-1], place))
                return request
            if all(chunk.result.done() for chunk in self._chunks):  # the next one may come with other weights, engines
                raise StopIteration
            try:
                self.begin(self._waiting.get_nowait())
            except Empty:
                raise StopIteration from None

    def begin(self, chunk: _Chunk) -> None:
        """Let the chunk's requests be the next ones."""
        self._chunks.append(chunk)
        chunk.prepare()
        self._next = iter(enumerate(chunk.requests))

    def finish(self, episode: Episode) -> None:
        """Give an episode to the chunk that asked for it."""
        chunk, place = self._places[episode.request].pop()
        chunk.finish(place, episode)

    def fail(self, error: BaseException) -> None:
        """End the calls of all chunks that are not complete with an error."""
        for chunk in self._chunks:
            if not chunk.result.done():
                chunk.result.set_exception(error)
