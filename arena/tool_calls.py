"""Calls that are under way, each in its own thread within a time limit, alongside all other play.

Called are tools, slow players (``arena.samplers.beside``) and the moves of games that are played elsewhere. A call is a
request like an engine's: its match waits, and nothing else does. A call that takes too long is answered by
a sentence and given up: its thread is interrupted at its next line of Python, and ends by itself where it waits in C,
as in a sleep or a query. Nobody waits for it, and it does not hold the process.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple

from arena.event_loop import LoopThread
from games.common.errors import UsageError
from roles.tools import Tool


class CallFailed(Exception):
    """A tool raised something, or returned no text; the message is the sentence that the seat reads."""


class CallLimits(NamedTuple):
    """The limits of calls that no card describes: of a player, or of a game's moves."""

    name: str
    timeout: float = 60.0  # seconds of a call
    in_flight: int = 64  # calls of the name that run at once
    retries: int = 0  # times that a call is made again which failed or took too long


class ToolRequest(NamedTuple):
    """A call that a match waits for.

    Where it ``tells`` it is answered by a text, whatever happens; otherwise one that fails has failed, and so has its
    match.
    """

    tool: Tool | CallLimits
    run: Callable[[], Any]  # raises CallFailed, or where it does not tell, anything
    tells: bool = True


class ToolCalls:
    """Runs calls until it is closed. At most ``in_flight`` calls of a name run at once; the others wait unheard.

    A call that fails or takes longer than ``timeout`` is made again ``retries`` times.
    """

    def __init__(self) -> None:
        self._loop: LoopThread | None = None  # most matches call nothing
        self._idle: list[_Worker] = []
        self._limits: dict[str, asyncio.Semaphore] = {}

    def submit(self, request: ToolRequest) -> Future[Any]:
        """Start a call. The future gives what it returns, or says what went wrong."""
        if self._loop is None:
            self._loop = LoopThread("tools")
        return self._loop.submit(self._answer(request))

    def close(self) -> None:
        """Give up what is under way, and end all threads that do not hang."""
        if self._loop is not None:
            self._loop.close(self._end_idle)
            self._loop = None

    async def _answer(self, request: ToolRequest) -> Any:
        tool = request.tool
        limit = self._limits.setdefault(tool.name, asyncio.Semaphore(tool.in_flight))
        async with limit:
            for _ in range(tool.retries + 1):
                answer, failed = await self._once(request)
                if not failed:
                    return answer
        if not request.tells:
            raise CallFailed(answer)
        return answer

    async def _once(self, request: ToolRequest) -> tuple[Any, bool]:
        """Return what one attempt gave, or the sentence of what went wrong, and whether it failed."""
        worker = self._idle.pop() if self._idle else _Worker()
        call = asyncio.wrap_future(worker.start(request.run))
        try:
            done, _ = await asyncio.wait([call], timeout=request.tool.timeout)
        except asyncio.CancelledError:
            call.cancel()
            worker.give_up()
            raise
        if not done:
            call.cancel()
            worker.give_up()
            return f"{request.tool.name} gave {no_answer_within(request.tool.timeout)}.", True
        self._idle.append(worker)
        error = call.exception()
        if error is None:
            return call.result(), False
        if isinstance(error, UsageError):
            raise error
        return str(error) if request.tells else f"{request.tool.name} failed: {type(error).__name__}: {error}", True

    async def _end_idle(self) -> None:
        for worker in self._idle:
            worker.end()
        self._idle.clear()


class _GivenUp(BaseException):
    """Interrupts a call. No Exception, so that what it catches does not hold it."""


class _Worker:
    """A thread that makes one call after another; no thread that hangs keeps the process from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="tool", daemon=True)
        self._thread.start()

    def start(self, run: Callable[[], Any]) -> Future[Any]:
        """Make a call after those before."""
        answer: Future[Any] = Future()
        self._calls.put((run, answer))
        return answer

    def give_up(self) -> None:
        """Interrupt the present call at its next line of Python, and make none after it."""
        self._calls.put(None)
        thread = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_GivenUp))

    def end(self) -> None:
        """End the thread, which is idle."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                run, answer = call
                try:
                    result = run()
                except Exception as error:  # noqa: BLE001  # who waits for it decides
                    _settle(answer, error)
                else:
                    _settle(answer, result)
        except _GivenUp:  # wherever it came: nobody waits for this thread any more
            return


def _settle(answer: Future[Any], value: Any) -> None:
    """Give a call's value to who waits for it; nobody does once it was given up."""
    if answer.set_running_or_notify_cancel():
        answer.set_exception(value) if isinstance(value, Exception) else answer.set_result(value)


def no_answer_within(seconds: float) -> str:
    """Return what a call that took too long gave."""
    return f"no answer within {seconds:g} seconds"
