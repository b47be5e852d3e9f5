"""vLLM in separate processes (Kwon et al., 2023, arXiv:2309.06180), and the thread that communicates with them.

The only importer of vllm; ``vllm_lm`` is the sampler on top.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from multiprocessing import active_children, resource_tracker
from pathlib import Path
from typing import Any, TypeVar

import torch

from arena.event_loop import LoopThread
from arena.lm.chunks import Tokens
from arena.samplers.vllm_shape import VllmShape, Weights
from arena.samplers.weight_lock import WeightLock
from games.common.child_processes import end_with_this

os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # no usage reports
os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # this process has threads, which a fork would break
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # its output would overwrite the live view
os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # which is a file of its own in its processes
if not torch.cuda.is_available():
    # Without a GPU vLLM would compile only one line about log-probs, in C++, and delay the first requests.
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")

from vllm import AsyncEngineArgs, SamplingParams
from vllm.inputs import tokens_input
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

_T = TypeVar("_T")
CHECK_INTERVAL = 1.0  # seconds between two checks that vLLM is alive


class VllmProcess:
    """vLLM's processes, and the thread that communicates with them."""

    def __init__(self, source: str | Path, shape: VllmShape, log: Path) -> None:
        """Start it; its processes write what they would write to the terminal to ``log``."""
        self._source, self._shape = source, shape
        self._numbers = count()
        self._sleep_lock = asyncio.Lock()
        self._asleep = False
        self._thread = LoopThread("vllm", _block_sigint)
        self._waiting: set[asyncio.Task[Any]] = set()
        before = set(active_children())
        with _errors_to(log):
            self._engine: Any = self.submit(self._start()).result()
        self._killer = end_with_this(child.pid for child in set(active_children()) - before if child.pid is not None)
        self.submit(self._watch())

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine on the thread."""
        return self._thread.submit(coroutine)

    async def generate(self, ids: Tokens, weights: Weights, **params: Any) -> Any:
        """Return vLLM's completion of a prompt, with the log-probs of its tokens as they were sampled."""
        async with self._turnstile:  # closed while a request waits to be alone
            pass
        async with self._alone_lock.using(None):
            return await self._generate_with(ids, weights, params)

    async def generate_alone(self, ids: Tokens, weights: Weights, **params: Any) -> Any:
        """Do the same when no other request is under way, with a cache of keys and values that nothing else wrote."""
        async with self._turnstile, self._alone_lock.using(object()):
            return await self._generate_with(ids, weights, params)

    async def _generate_with(self, ids: Tokens, weights: Weights, params: dict[str, Any]) -> Any:
        if self._asleep:
            await self._wake()
        if self._shape.adapters:
            lora = None if weights.bare else LoRARequest(weights.name, weights.number, str(weights.folder))
            # vLLM 0.32 on a CPU answers a request without an adapter with another's if both are in one batch.
            async with self._bare_lock.using(weights.bare):
                return await self._generate(ids, lora, params)
        async with self._weight_lock.using(weights):
            return await self._generate(ids, None, params)

    def forget(self, weights: Weights) -> None:
        """Do nothing: vLLM drops the adapter that was least recently used."""

    async def sleep(self) -> None:
        """Sleep until the next request: weights move to CPU memory, the cache is lost. No request may be pending."""
        async with self._sleep_lock:
            if not self._asleep:
                await self._await_engine(self._engine.sleep(level=1, mode="wait"))
                self._asleep = True

    async def _wake(self) -> None:
        async with self._sleep_lock:
            if self._asleep:
                torch.cuda.empty_cache()  # memory that the learner has freed but PyTorch keeps
                await self._await_engine(self._engine.wake_up())
                self._asleep = False

    def close(self) -> None:
        """Stop the processes and the thread."""
        self._killer.kill()
        self._killer.communicate()
        self._thread.close(self._stop)

    async def _start(self) -> Any:
        shape = self._shape
        self._weight_lock, self._bare_lock = WeightLock[Weights](self._load), WeightLock[bool](_load_nothing)
        self._alone_lock, self._turnstile = WeightLock[object](self._clear_cache), asyncio.Lock()
        lora: dict[str, Any] = {
            "enable_lora": True,
            "max_loras": shape.max_loras,
            "max_lora_rank": shape.max_lora_rank,
            "max_cpu_loras": max(shape.max_loras, shape.cached_adapters),
        }
        arguments = AsyncEngineArgs(
            model=str(self._source),
            skip_tokenizer_init=True,
            trust_remote_code=False,
            dtype=shape.dtype,
            max_model_len=shape.max_model_len,
            gpu_memory_utilization=shape.memory_share,
            kv_cache_memory_bytes=None if shape.kv_gib is None else int(shape.kv_gib * 2**30),
            enforce_eager=not torch.cuda.is_available(),
            enable_prefix_caching=True,
            # vLLM 0.32 on a CPU crashes on a request with a seed whose prompt is read in two steps.
            enable_chunked_prefill=None if torch.cuda.is_available() else False,
            enable_sleep_mode=shape.sleep and torch.cuda.is_available(),
            generation_config="vllm",  # only the roles' sampling settings
            logprobs_mode="processed_logprobs",  # after temperature and mask
            max_logprobs=-1,
            disable_log_stats=True,
            worker_extension_cls="arena.samplers.vllm_worker.WorkerExtension",
            **(lora if shape.adapters else {}),
        )
        # As in vLLM's ``LLM``: otherwise batches have at most 128 requests, on any device.
        return AsyncLLM.from_engine_args(arguments, usage_context=UsageContext.LLM_CLASS)

    async def _stop(self) -> None:
        self._engine.shutdown()

    async def _load(self, weights: Weights) -> None:
        await self._await_engine(self._engine.pause_generation(mode="wait"))  # drops the old weights' keys and values
        await self._await_engine(self._engine.collective_rpc("exchange_weights", args=(str(weights.folder),)))
        await self._await_engine(self._engine.resume_generation())

    async def _clear_cache(self, alone: object) -> None:
        """Empty the cache of keys and values for one request that is to be alone; it is called when none is pending."""
        if alone is not None:
            if self._asleep:
                await self._wake()
            await self._await_engine(self._engine.reset_prefix_cache())
            await self._await_engine(self._engine.collective_rpc("zero_keys_and_values"))

    async def _generate(self, ids: Tokens, lora: Any, params: dict[str, Any]) -> Any:
        settings = SamplingParams(**params, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY)
        prompt, number = tokens_input(list(ids)), str(next(self._numbers))
        outputs = self._engine.generate(prompt, settings, number, lora_request=lora)
        [completion] = (await self._await_engine(_last(outputs))).outputs
        return completion

    async def _await_engine(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Await a coroutine of vLLM's, which by itself would wait forever if vLLM's process has died."""
        task: Any = asyncio.current_task()
        self._waiting.add(task)
        try:
            return await coroutine
        except asyncio.CancelledError:
            if self._engine.errored:
                raise self._engine.dead_error from None
            raise
        finally:
            self._waiting.discard(task)

    async def _watch(self) -> None:
        """Cancel the waiting tasks when vLLM's process has died."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            if self._engine.errored:
                for task in self._waiting:
                    task.cancel()


async def _load_nothing(_bare: bool) -> None:
    """Do nothing: the base and its adapters are in memory together."""


async def _last(outputs: AsyncIterator[_T]) -> _T:
    """Return the last output of at least one."""
    async for output in outputs:
        last = output
    return last


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Let processes that are started within write standard error to a file: they keep it, this process does not."""
    ours = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _block_sigint() -> None:
    """Block Ctrl-C in the processes that this thread starts: the run handles it, and may finish its iteration first."""
    resource_tracker.ensure_running()  # first, because its start unblocks the signal again
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
