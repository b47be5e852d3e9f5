"""vLLM in processes of its own (Kwon et al., 2023, arXiv:2309.06180), and this one's thread that talks to them.

The only importer of vllm; ``vllm_lm`` makes a sampler of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from itertools import count
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from arena.chunks import Tokens
from arena.loop_thread import LoopThread
from arena.turnstile import Turnstile

os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # nobody is told what is played here
os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # this process has threads, which do not stand a fork
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # it would write over the run's own view
if not torch.cuda.is_available():
    # Without a GPU all that vLLM compiles is one line about log-probs, in C++, while the first requests wait for it.
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")

from vllm import AsyncEngineArgs, SamplingParams
from vllm.inputs import tokens_input
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

_T = TypeVar("_T")
ALIVE = 1.0  # seconds between two looks at whether vLLM is alive


class VllmShape(NamedTuple):
    """What one engine holds."""

    adapters: bool  # LoRA adapters on one base, or whole models in turn
    max_loras: int = 4  # adapters in one batch
    max_lora_rank: int = 16
    cached_adapters: int = 8  # adapters held in memory besides
    max_model_len: int = 2048  # tokens of a prompt and its reply
    dtype: str = "float32"
    memory_share: float = 0.9  # of a GPU's memory
    kv_gib: float | None = None  # of keys and values; None: what ``memory_share`` leaves
    sleep: bool = False  # give a GPU's memory back at rest; without one, rest frees nothing


class Weights(NamedTuple):
    """One state of a player's weights, in a folder."""

    name: str  # never given to others
    number: int  # from 1; never given to others
    player: str
    folder: Path


class VllmProcess:
    """vLLM's own processes, and the thread of this one that talks to them."""

    def __init__(self, source: str | Path, shape: VllmShape) -> None:
        self._source, self._shape = source, shape
        self._numbers = count()
        self._bed = asyncio.Lock()
        self._asleep = False
        self._thread = LoopThread("vllm", _deaf_to_ctrl_c)
        self._waiting: set[asyncio.Task[Any]] = set()
        self._engine: Any = self.send(self._start()).result()
        self.send(self._watch())

    def send(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Begin some work on the thread."""
        return self._thread.send(work)

    async def generate(self, ids: Tokens, weights: Weights, **params: Any) -> Any:
        """Return vLLM's completion of a prompt, with the log-probs of its tokens as they were sampled."""
        if self._asleep:
            await self._wake()
        if self._shape.adapters:
            lora = LoRARequest(weights.name, weights.number, str(weights.folder))
            return await self._generated(ids, lora, params)
        async with self._models.using(weights):
            return await self._generated(ids, None, params)

    async def rest(self) -> None:
        """Sleep until the next request: weights go to the machine's memory, the cache is lost. Nobody may wait."""
        async with self._bed:
            if not self._asleep:
                await self._watched(self._engine.sleep(level=1, mode="wait"))
                self._asleep = True

    async def _wake(self) -> None:
        async with self._bed:
            if self._asleep:
                torch.cuda.empty_cache()  # what the learner has freed but PyTorch keeps
                await self._watched(self._engine.wake_up())
                self._asleep = False

    def close(self) -> None:
        """Stop the processes and the thread."""
        self._thread.close(self._stop)

    async def _start(self) -> Any:
        shape = self._shape
        self._models = Turnstile[Weights](self._load)
        lora: dict[str, Any] = {
            "enable_lora": True,
            "max_loras": shape.max_loras,
            "max_lora_rank": shape.max_lora_rank,
            "max_cpu_loras": max(shape.max_loras, shape.cached_adapters),
        }
        arguments = AsyncEngineArgs(
            model=str(self._source),
            skip_tokenizer_init=True,
            dtype=shape.dtype,
            max_model_len=shape.max_model_len,
            gpu_memory_utilization=shape.memory_share,
            kv_cache_memory_bytes=None if shape.kv_gib is None else int(shape.kv_gib * 2**30),
            enforce_eager=not torch.cuda.is_available(),
            enable_prefix_caching=True,
            # vLLM 0.32 on a processor dies of a request with a seed whose prompt is read in two steps.
            enable_chunked_prefill=None if torch.cuda.is_available() else False,
            enable_sleep_mode=shape.sleep and torch.cuda.is_available(),
            generation_config="vllm",  # no sampling settings but the roles'
            logprobs_mode="processed_logprobs",  # after temperature and mask
            max_logprobs=-1,
            disable_log_stats=True,
            worker_extension_cls="arena.samplers.vllm_worker.Exchange",
            **(lora if shape.adapters else {}),
        )
        # As ``LLM`` does for itself: otherwise batches are of at most 128 requests, on any device.
        return AsyncLLM.from_engine_args(arguments, usage_context=UsageContext.LLM_CLASS)

    async def _stop(self) -> None:
        self._engine.shutdown()

    async def _load(self, weights: Weights) -> None:
        await self._watched(self._engine.pause_generation(mode="wait"))  # drops keys and values of the old ones
        await self._watched(self._engine.collective_rpc("exchange_weights", args=(str(weights.folder),)))
        await self._watched(self._engine.resume_generation())

    async def _generated(self, ids: Tokens, lora: Any, params: dict[str, Any]) -> Any:
        settings = SamplingParams(**params, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY)
        prompt, number = tokens_input(list(ids)), str(next(self._numbers))
        outputs = self._engine.generate(prompt, settings, number, lora_request=lora)
        [completion] = (await self._watched(_last(outputs))).outputs
        return completion

    async def _watched(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for some work of vLLM's, which does not tell those who wait when its process is gone."""
        task: Any = asyncio.current_task()
        self._waiting.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if self._engine.errored:
                raise self._engine.dead_error from None
            raise
        finally:
            self._waiting.discard(task)

    async def _watch(self) -> None:
        """Wake those who wait when vLLM's process is gone."""
        while True:
            await asyncio.sleep(ALIVE)
            if self._engine.errored:
                for task in self._waiting:
                    task.cancel()


async def _last(outputs: AsyncIterator[_T]) -> _T:
    """Return the last of some outputs, of which there is at least one."""
    async for output in outputs:
        last = output
    return last


def _deaf_to_ctrl_c() -> None:
    """Keep Ctrl-C at a terminal from the processes that this thread starts: it is for the run, which may want to
    finish its iteration.
    """
    resource_tracker.ensure_running()  # first, because starting it lets the signal through again
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
