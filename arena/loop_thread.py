"""An event loop in a thread of its own, for engines that wait for others: a server, or processes beside this one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Does work that other threads send it, side by side, until it is closed."""

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        """Start the thread; ``prepare`` is what it does before all else."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(prepare,), name=name, daemon=True)
        self._thread.start()

    def send(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Begin some work; to cancel the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what is under way, do the ``last`` work and end the thread; nothing where it has ended before."""
        if not self._thread.is_alive():
            return
        try:
            self.send(self._end(last)).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self, prepare: Callable[[], None] | None) -> None:
        if prepare is not None:
            prepare()
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _end(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await last()
