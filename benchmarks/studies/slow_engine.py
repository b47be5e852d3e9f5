"""PyTorch's engine with replies that take a log-normal time, as those of a model that reasons do: a plugin of runs.

The time is slept, not computed, so that a busy machine hardly changes it; it is drawn with the reply, so that equal
matches take equal times. The beginning and the end of each reply are written to a file of the process.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import league
from arena.event_loop import LoopThread
from arena.records import Reply, ReplyRequest
from arena.samplers.torch_lm import TorchLM
from games.common.section import NonNegative, Section
from league.config import RunConfig
from league.population.players.model_engine import EngineKind


class Settings(Section):
    """The engine's table."""

    mean: float = 0.03  # seconds of a reply
    spread: NonNegative = 1.0  # standard deviation of their logarithm
    told: str = ""  # the folder in which it says what it has slept; "": it does not


class SlowLM:
    """PyTorch's engine, each of whose replies comes after a while."""

    def __init__(self, settings: Settings, lm: TorchLM) -> None:
        self._lm, self._settings, self._thread = lm, settings, LoopThread("slow")
        told = Path(settings.told, f"{os.getpid()}.jsonl")
        self._told = told.open("a", buffering=1, encoding="utf-8") if settings.told else None

    def __getattr__(self, name: str) -> Any:
        """Return the engine's; it is not a subclass, because what a match draws from it is not known before."""
        return getattr(self._lm, name)

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``arena.records.Streaming``."""
        [reply] = self._lm.sample([request])
        settings = self._settings
        seconds = settings.mean * math.exp(settings.spread * _normal(request) - settings.spread**2 / 2)
        return self._thread.submit(self._late(reply, seconds))

    def close(self) -> None:
        """End the thread."""
        self._thread.close(_nothing)
        if self._told is not None:
            self._told.close()
        self._lm.close()

    async def _late(self, reply: Reply, seconds: float) -> Reply:
        begun = time.time()
        await asyncio.sleep(seconds)
        if self._told is not None:
            self._told.write(f"{json.dumps([begun, time.time()])}\n")
        return reply


def _normal(request: ReplyRequest) -> float:
    """Return a normal number (Box and Muller's)."""
    return math.sqrt(-2.0 * math.log(1.0 - request.rng.random())) * math.cos(2.0 * math.pi * request.rng.random())


async def _nothing() -> None:
    return


def _make(config: RunConfig, *_: object) -> SlowLM:
    lm = TorchLM(device=config.model.device, dtype=config.model.dtype)
    return SlowLM(config.engine.slow, lm)  # type: ignore[attr-defined]  # the plugin's table


league.register_engine("slow", EngineKind(_make, settings=Settings, description="PyTorch, slowly", streams=True))
