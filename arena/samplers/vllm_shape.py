"""What vLLM is started with and asked for, whoever starts it. Nothing of vLLM is imported here."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from arena.lm.chunks import Tokens

_T = TypeVar("_T")
LOG_LINES = 12  # of vLLM's own that are shown where it could not be started


class VllmShape(NamedTuple):
    """Sizes of one engine."""

    adapters: bool  # True: LoRA adapters on one base; False: whole models, one at a time
    max_loras: int = 4  # adapters in one batch
    max_lora_rank: int = 16
    cached_adapters: int = 8  # adapters in CPU memory
    max_model_len: int = 2048  # tokens of a prompt and its reply
    dtype: str = "float32"
    memory_share: float = 0.9  # share of a GPU's memory
    kv_gib: float | None = None  # GiB of keys and values; None: what ``memory_share`` leaves
    sleep: bool = False  # free the GPU's memory in ``sleep``; without a GPU nothing is freed


class Weights(NamedTuple):
    """A version of a player's weights, in a folder."""

    name: str  # unique, never reused
    number: int  # from 1; unique, never reused
    player: str
    folder: Path
    bare: bool = False  # the base of adapters by itself, without one
    version: int | None = None  # of weights in training: ``LanguageModel.version``


class Vllm(Protocol):
    """vLLM, wherever it runs, and the thread that communicates with it."""

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine on the thread."""
        ...

    async def generate(self, ids: Tokens, weights: Weights, **params: Any) -> Any:
        """Return a completion of a prompt: ``token_ids`` and, for each, ``logprobs`` by token, as they were sampled."""
        ...

    async def generate_alone(self, ids: Tokens, weights: Weights, **params: Any) -> Any:
        """Do the same when no other request is under way, with a cache of keys and values that nothing else wrote."""
        ...

    def forget(self, weights: Weights) -> None:
        """Let go of weights that nothing will ask for again."""
        ...

    async def sleep(self) -> None:
        """Free memory until the next request."""
        ...

    def close(self) -> None:
        """Stop it."""
        ...


def last_lines(log: Path) -> str:
    """Return the end of what vLLM's processes wrote, as the end of an error's text."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "".join(f"\n  {line}" for line in lines[-LOG_LINES:])
