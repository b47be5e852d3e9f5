"""A lock on an engine that has one set of weights at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

W = TypeVar("W")


class WeightLock(Generic[W]):
    """Admits requests that need the loaded weights; loads other weights when no request uses the present ones."""

    def __init__(self, load: Callable[[W], Awaitable[None]]) -> None:
        self._load = load
        self._loaded: W | None = None
        self._users = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def using(self, weights: W) -> AsyncIterator[None]:
        """Wait until ``weights`` are loaded, and keep them loaded within the context."""
        async with self._changed:
            await self._changed.wait_for(lambda: weights == self._loaded or not self._users)
            if weights != self._loaded:
                self._loaded = None  # until the load has succeeded
                await self._load(weights)
                self._loaded = weights
                self._changed.notify_all()
            self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            async with self._changed:
                self._changed.notify_all()
