"""One set of weights at a time: who needs others waits until nobody uses the present ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

W = TypeVar("W")


class Turnstile(Generic[W]):
    """Lets requests in while they need the weights that are loaded, and loads others when all have left."""

    def __init__(self, load: Callable[[W], Awaitable[None]]) -> None:
        self._load = load
        self._loaded: W | None = None
        self._inside = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def using(self, weights: W) -> AsyncIterator[None]:
        """Wait until ``weights`` are loaded, and keep them loaded within."""
        async with self._changed:
            await self._changed.wait_for(lambda: weights == self._loaded or not self._inside)
            if weights != self._loaded:
                self._loaded = None  # until the load has succeeded
                await self._load(weights)
                self._loaded = weights
                self._changed.notify_all()
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            async with self._changed:
                self._changed.notify_all()
