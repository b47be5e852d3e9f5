"""An event loop in a thread, for engines that wait for a server or another process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")
AGAIN = 1.0  # seconds after which what was cancelled and continues is cancelled again


class LoopThread:
    """Runs coroutines that other threads submit, concurrently, until it is closed."""

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        """Start the thread, which first calls ``prepare``."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(prepare,), name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel all coroutines, run ``cleanup`` and end the thread. Does nothing if the thread has ended."""
        if not self._thread.is_alive():
            return
        try:
            self.submit(self._end(cleanup)).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self, prepare: Callable[[], None] | None) -> None:
        if prepare is not None:
            prepare()
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _end(self, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        tasks = waiting = asyncio.all_tasks() - {asyncio.current_task()}
        while waiting:  # asyncio.wait_for of Python 3.11 may swallow a cancellation, so that one may not be enough
            for task in waiting:
                task.cancel()
            _, waiting = await asyncio.wait(waiting, timeout=AGAIN)
        await asyncio.gather(*tasks, return_exceptions=True)
        await cleanup()
