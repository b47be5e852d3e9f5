"""Requests on their way to engines that answer one at a time, and the weights that matches keep there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from arena.errors import EngineError
from arena.records import Keeper, Reply, ReplyRequest, Streaming
from games.errors import UsageError

M = TypeVar("M")  # who waits for a reply: a match

Engine = Any  # Sampler | Streaming: which one it is, ``streams`` tells


def streams(engine: Engine) -> bool:
    """Return whether an engine answers one at a time."""
    kind: Any = type(engine)
    return _provides(kind, Streaming)


def keeps(engine: Engine) -> bool:
    """Return whether an engine keeps weights for matches."""
    kind: Any = type(engine)
    return _provides(kind, Keeper)


@cache  # looking a protocol up takes longer than a move
def _provides(kind: Any, protocol: Any) -> bool:
    return issubclass(kind, protocol)


class _Asked(NamedTuple, Generic[M]):
    """A request under way."""

    waiting: M
    engine: Streaming
    player: str
    reply: Future[Reply]


class Desk(Generic[M]):
    """Hands requests to their engines and takes the replies in the order in which they come."""

    def __init__(self, engine_of: Callable[[str], Engine]) -> None:
        self._engine_of = engine_of
        self._under_way: dict[int, _Asked[M]] = {}
        self._come: SimpleQueue[int] = SimpleQueue()  # numbers of requests that are answered
        self._number = 0
        self._kept: Counter[tuple[Keeper, str]] = Counter()  # weights that matches keep, and how many do

    def __len__(self) -> int:
        return len(self._under_way)

    def keep(self, players: Iterable[str], kept: dict[str, str]) -> None:
        """Add to ``kept`` under which ids the players' engines keep the weights that they have now."""
        for player in players:
            engine = self._engine_of(player)
            if player not in kept and keeps(engine):
                kept[player] = weights = engine.keep(player)
                self._kept[engine, weights] += 1

    def let_go(self, kept: Mapping[str, str]) -> None:
        """Let the weights go that ``keep`` returned."""
        for player, weights in kept.items():
            keeper = self._engine_of(player)
            self._kept[keeper, weights] -= 1
            keeper.let_go(weights)

    def submit(self, waiting: M, engine: Streaming, request: ReplyRequest, player: str) -> None:
        """Send a request for a player off, which may name weights that are kept instead.

        Raises EngineError, or the engine's UsageError, if it is refused at once.
        """
        self._number = number = self._number + 1
        try:
            reply = engine.submit(request)
        except UsageError:
            raise
        except Exception as error:
            raise _failed(engine, player, error) from error
        self._under_way[number] = _Asked(waiting, engine, player, reply)
        reply.add_done_callback(lambda _: self._come.put(number))

    def replies(self, *, wait: bool) -> tuple[list[M], list[Reply]]:
        """Return who has an answer, and the answers; with ``wait``, at least one.

        Raises EngineError, with engine and player named, for a request that failed.
        """
        if not self._under_way:
            return [], []
        numbers = [self._come.get()] if wait else []
        while True:
            try:
                numbers.append(self._come.get_nowait())
            except Empty:
                break
        asked = [self._under_way.pop(number) for number in numbers]
        return [one.waiting for one in asked], [_result(one) for one in asked]

    def close(self) -> None:
        """Cancel what is under way, and let all weights go that are still kept."""
        for one in self._under_way.values():
            one.reply.cancel()
        self._under_way.clear()
        for keeper, weights in self._kept.elements():
            keeper.let_go(weights)
        self._kept.clear()


def _result(asked: _Asked[M]) -> Reply:
    try:
        return asked.reply.result()
    except UsageError:
        raise
    except Exception as error:
        raise _failed(asked.engine, asked.player, error) from error


def _failed(engine: Engine, player: str, error: Exception) -> EngineError:
    return EngineError(
        f"The engine {type(engine).__name__} failed on a request for {player}: {type(error).__name__}: {error}"
    )
