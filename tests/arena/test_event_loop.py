"""A loop in a thread ends, whatever its coroutines do when they are cancelled."""

import asyncio
import threading

from arena.event_loop import LoopThread


def test_a_coroutine_that_swallows_a_cancellation_is_cancelled_again(monkeypatch):
    """As ``asyncio.wait_for`` of Python 3.11 does where its answer comes in the same moment."""
    monkeypatch.setattr("arena.event_loop.AGAIN", 0.01)
    begun, told = threading.Event(), []

    async def watch():
        begun.set()
        for _ in range(2):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                told.append("swallowed")
        await asyncio.sleep(3600)

    async def cleanup():
        told.append("cleaned up")

    loop = LoopThread("test")
    watched = loop.submit(watch())
    assert begun.wait(30)
    loop.close(cleanup)
    assert told == ["swallowed", "swallowed", "cleaned up"]
    assert watched.cancelled()
    loop.close(cleanup)
    assert len(told) == 3
