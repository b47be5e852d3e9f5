"""Pending replies of streaming engines and tools, and the weights that matches have pinned there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from arena.errors import EngineError
from arena.records import PinsWeights, ReplyRequest, Streaming
from arena.tool_calls import ToolCalls, ToolRequest
from games.common.errors import UsageError

M = TypeVar("M")  # a match, which waits for a reply

Engine = Any  # Sampler | Streaming


def streams(engine: Engine) -> bool:
    """Return whether an engine is ``Streaming``."""
    engine_class: Any = type(engine)
    return _provides(engine_class, Streaming)


def pins_weights(engine: Engine) -> bool:
    """Return whether an engine is ``PinsWeights``."""
    engine_class: Any = type(engine)
    return _provides(engine_class, PinsWeights)


@cache  # the check of a protocol takes longer than a move
def _provides(engine_class: Any, protocol: Any) -> bool:
    return issubclass(engine_class, protocol)


class _PendingReply(NamedTuple, Generic[M]):
    """A request under way."""

    match: M
    engine: Streaming | None  # None: a tool's
    player: str  # or the name of what is called
    reply: Future[Any]  # of a Reply, or of a tool's text


class FailedRequest(NamedTuple, Generic[M]):
    """A request that an engine did not answer."""

    match: M
    error: EngineError


class ReplyQueue(Generic[M]):
    """Submits requests to streaming engines and returns replies in the order in which they complete."""

    def __init__(self, engine_of: Callable[[str], Engine]) -> None:
        self._engine_of = engine_of
        self._pending: dict[int, _PendingReply[M]] = {}
        self._completed: SimpleQueue[int] = SimpleQueue()  # numbers of requests
        self._number = 0
        self._pinned: Counter[tuple[PinsWeights, str]] = Counter()  # number of matches by engine and weights
        self._tools, self._calling = ToolCalls(), 0
        self._failed: list[FailedRequest[M]] = []

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def of_engines(self) -> int:
        """How many of the requests are an engine's: a match that waits for a tool holds no place there."""
        return len(self._pending) - self._calling

    def take_failed(self) -> list[FailedRequest[M]]:
        """Return the requests that have failed since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def pin(self, players: Iterable[str], pinned: dict[str, str]) -> None:
        """Pin the players' present weights; add their ids to ``pinned``, by player."""
        for player in players:
            engine = self._engine_of(player)
            if player not in pinned and pins_weights(engine):
                pinned[player] = weights = engine.pin(player)
                self._pinned[engine, weights] += 1

    def unpin(self, pinned: Mapping[str, str]) -> None:
        """Unpin the weights that ``pin`` added to ``pinned``."""
        for player, weights in pinned.items():
            engine = self._engine_of(player)
            self._pinned[engine, weights] -= 1
            engine.unpin(weights)

    def submit(self, match: M, engine: Streaming, request: ReplyRequest, player: str) -> None:
        """Submit a match's request, which names either ``player`` or pinned weights of theirs.

        If the engine refuses it at once, it has failed. Raises the engine's UsageError.
        """
        try:
            reply = engine.submit(request)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001  # the match begins again, or raises it
            self._failed.append(FailedRequest(match, _failure(engine, player, error)))
        else:
            self._add(_PendingReply(match, engine, player, reply))

    def call(self, match: M, request: ToolRequest) -> None:
        """Start the call of a tool that a match waits for."""
        self._calling += 1
        self._add(_PendingReply(match, None, request.tool.name, self._tools.submit(request)))

    def drop(self, belongs: Callable[[M], bool]) -> None:
        """Forget the requests of some matches; what they are answered is not returned."""
        for number in [number for number, pending in self._pending.items() if belongs(pending.match)]:
            self._take(number).reply.cancel()

    def replies(self, *, wait: bool, patience: float | None = None) -> tuple[list[M], list[Any]]:
        """Return the matches whose replies have completed, and the replies; with ``wait``, after at least one event.

        ``patience``: the most seconds to wait, after which there may be none; None: as long as it takes.
        A request that failed is not among them (``take_failed``). Raises an engine's UsageError.
        """
        matches: list[M] = []
        replies: list[Any] = []
        numbers: list[int] = []
        with suppress(Empty):
            if wait and self._pending:
                numbers.append(self._completed.get(timeout=patience))
            while self._pending:
                numbers.append(self._completed.get_nowait())
        for number in numbers:
            if number not in self._pending:  # dropped
                continue
            pending = self._take(number)
            try:
                reply = pending.reply.result()
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001  # the match begins again, or raises it
                self._failed.append(FailedRequest(pending.match, _failure(pending.engine, pending.player, error)))
                continue
            matches.append(pending.match)
            replies.append(reply)
        return matches, replies

    def _add(self, pending: _PendingReply[M]) -> None:
        self._number = number = self._number + 1
        self._pending[number] = pending
        pending.reply.add_done_callback(lambda _: self._completed.put(number))

    def _take(self, number: int) -> _PendingReply[M]:
        pending = self._pending.pop(number)
        self._calling -= pending.engine is None
        return pending

    def close(self) -> None:
        """Cancel all pending replies, give up the calls of tools, and unpin all weights."""
        for pending in self._pending.values():
            pending.reply.cancel()
        self._pending.clear()
        self._tools.close()
        for engine, weights in self._pinned.elements():
            engine.unpin(weights)
        self._pinned.clear()


def _failure(engine: Engine, player: str, error: Exception) -> EngineError:
    """Return the error of an engine's request for a player, or of a move of a game that is played elsewhere."""
    who = f"A move of {player}" if engine is None else f"The engine {type(engine).__name__}"
    what = "did not succeed" if engine is None else f"failed on a request for {player}"
    failure = EngineError(f"{who} {what}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
