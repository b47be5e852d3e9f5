"""Pending replies of streaming engines, and the weights that matches have pinned there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from arena.errors import EngineError
from arena.records import PinsWeights, Reply, ReplyRequest, Streaming
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
    engine: Streaming
    player: str
    reply: Future[Reply]


class ReplyQueue(Generic[M]):
    """Submits requests to streaming engines and returns replies in the order in which they complete."""

    def __init__(self, engine_of: Callable[[str], Engine]) -> None:
        self._engine_of = engine_of
        self._pending: dict[int, _PendingReply[M]] = {}
        self._completed: SimpleQueue[int] = SimpleQueue()  # numbers of requests
        self._number = 0
        self._pinned: Counter[tuple[PinsWeights, str]] = Counter()  # number of matches by engine and weights

    def __len__(self) -> int:
        return len(self._pending)

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

        Raises EngineError, or the engine's UsageError, if the engine refuses it at once.
        """
        self._number = number = self._number + 1
        try:
            reply = engine.submit(request)
        except UsageError:
            raise
        except Exception as error:
            raise _failed(engine, player, error) from error
        self._pending[number] = _PendingReply(match, engine, player, reply)
        reply.add_done_callback(lambda _: self._completed.put(number))

    def replies(self, *, wait: bool) -> tuple[list[M], list[Reply]]:
        """Return the matches whose replies have completed, and the replies; with ``wait``, at least one.

        Raises EngineError, with engine and player named, for a request that failed.
        """
        if not self._pending:
            return [], []
        numbers = [self._completed.get()] if wait else []
        while True:
            try:
                numbers.append(self._completed.get_nowait())
            except Empty:
                break
        completed = [self._pending.pop(number) for number in numbers]
        return [pending.match for pending in completed], [_result(pending) for pending in completed]

    def close(self) -> None:
        """Cancel all pending replies and unpin all weights."""
        for pending in self._pending.values():
            pending.reply.cancel()
        self._pending.clear()
        for engine, weights in self._pinned.elements():
            engine.unpin(weights)
        self._pinned.clear()


def _result(pending: _PendingReply[M]) -> Reply:
    try:
        return pending.reply.result()
    except UsageError:
        raise
    except Exception as error:
        raise _failed(pending.engine, pending.player, error) from error


def _failed(engine: Engine, player: str, error: Exception) -> EngineError:
    return EngineError(
        f"The engine {type(engine).__name__} failed on a request for {player}: {type(error).__name__}: {error}"
    )
