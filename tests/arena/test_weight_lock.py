"""An engine with one set of weights at a time: nobody's weights are replaced while they are in use."""

import asyncio

import pytest

from arena.samplers.weight_lock import WeightLock


class Engine:
    """Loads weights slowly, and notes what was in use when others were loaded."""

    def __init__(self, failures=0):
        self.loaded, self.users, self.loads, self.failures = None, 0, [], failures
        self.lock = WeightLock(self.load)

    async def load(self, weights):
        assert not self.users, f"{weights} were loaded while {self.loaded} were in use"
        self.loaded = "neither"
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no memory")
        self.loaded = weights
        self.loads.append(weights)

    async def use(self, weights, steps=3):
        async with self.lock.using(weights):
            self.users += 1
            for _ in range(steps):
                assert self.loaded == weights
                await asyncio.sleep(0)
            self.users -= 1


def test_requests_run_under_their_own_weights_and_equal_ones_together():
    engine = Engine()

    async def run():
        async with asyncio.timeout(10):
            await asyncio.gather(*[engine.use(weights, steps) for steps in (1, 5, 2) for weights in "abab"])

    asyncio.run(run())
    assert sorted(set(engine.loads)) == ["a", "b"]
    assert len(engine.loads) < 12, "those who want the present weights do not wait for others"


def test_weights_that_failed_to_load_are_loaded_again_and_so_are_those_before():
    engine = Engine()

    async def run():
        async with asyncio.timeout(10):
            await engine.use("a")
            engine.failures = 1
            with pytest.raises(RuntimeError, match="no memory"):
                await engine.use("b")
            await engine.use("a")  # which the failed load may have overwritten
            await engine.use("b")

    asyncio.run(run())
    assert engine.loads == ["a", "a", "b"]


def test_a_request_that_fails_lets_the_next_weights_in():
    engine = Engine()

    async def fail():
        async with engine.lock.using("a"):
            raise ValueError("cancelled")

    async def run():
        async with asyncio.timeout(10):
            with pytest.raises(ValueError, match="cancelled"):
                await fail()
            await engine.use("b")

    asyncio.run(run())
    assert engine.loads == ["a", "b"]
