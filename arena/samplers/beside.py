"""A slow player alongside all other play: each of its replies is a call of its own, with limits.

A scripted player that waits for something, such as a search, a program or another system, holds up a whole round of
matches: ``sample`` is called for all of its requests, and the others wait. Behind this it streams: its match waits, and
no other does. A reply that does not come in time is an empty one, which is illegal, and the role's conduct says what
follows; where replies are masked there is nothing to be told, so that its match begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from copy import copy
from typing import Any

from arena.records import Reply, ReplyRequest, Sampler
from arena.tool_calls import CallFailed, CallLimits, ToolCalls, ToolRequest
from roles.role import OnIllegal


class Beside:
    """A ``Streaming`` engine whose replies are another's, each asked for by itself within limits."""

    def __init__(self, engine: Sampler, limits: CallLimits) -> None:
        self._engine, self._limits, self._calls = engine, limits, ToolCalls()
        self.late = 0  # replies that did not come

    def __getattr__(self, name: str) -> Any:
        """Return what else the player can do."""
        return getattr(self._engine, name)

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request, all asked for at once. Raises CallFailed as ``submit``'s future."""
        return [reply.result() for reply in [self.submit(request) for request in requests]]

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. A call that is given up may continue, so it has a position and a generator of its own."""
        rng = copy(request.rng)
        own = request._replace(rng=rng, game=request.game.copy())
        asked = self._calls.submit(ToolRequest(self._limits, lambda: self._engine.sample([own])[0], tells=False))
        reply: Future[Reply] = Future()

        def settle(done: Future[Reply]) -> None:
            if done.cancelled() or not reply.set_running_or_notify_cancel():
                return
            error = done.exception()
            if error is None:
                request.rng.setstate(rng.getstate())
                reply.set_result(done.result())
            elif isinstance(error, CallFailed) and request.role.conduct.on_illegal is not OnIllegal.MASK:
                self.late += 1
                reply.set_result(Reply(""))
            else:
                reply.set_exception(error)

        asked.add_done_callback(settle)
        reply.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
        return reply

    def close(self) -> None:
        """Give up what is under way."""
        self._calls.close()
