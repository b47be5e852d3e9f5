"""Settings that may let a run fit, which ``league.training.sizing.plan`` tries in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from league.config import RunConfig
from league.config.engine import VllmSettings
from league.training.sizing.cards import spread_of

SMALL_PASS = 2048  # tokens
MOST_PARALLEL = 8  # cards of an engine, as many as a machine has


class Mending(NamedTuple):
    """A setting that may let a run fit."""

    sentence: str
    apply: Callable[[RunConfig], RunConfig]


def mendings_of(config: RunConfig) -> Iterator[Mending]:
    """Yield settings that take less memory, the ones that cost least first."""
    yield from _of_engines(config)
    if config.trainer.learns_here:
        yield from _of_learners(config)
        yield from _adapters(config)


def _of(table: str, **values: object) -> Callable[[RunConfig], RunConfig]:
    def apply(config: RunConfig) -> RunConfig:
        return config.model_copy(update={table: getattr(config, table).model_copy(update=values)})

    return apply


def _of_engines(config: RunConfig) -> Iterator[Mending]:
    if not config.engine.in_process:
        yield from _of_memory(config.engine.vllm)
    servers = config.engine.vllm_server
    if spread_of(config).started and servers.tensor_parallel < MOST_PARALLEL:
        twice = {"tensor_parallel": 2 * servers.tensor_parallel, "replicas": max(servers.replicas // 2, 1)}
        said = " and ".join(f"engine.vllm_server.{n} = {v}" for n, v in twice.items() if v != getattr(servers, n))
        yield Mending(said, _of("engine", vllm_server=servers.model_copy(update=twice)))


def _of_memory(vllm: VllmSettings) -> Iterator[Mending]:
    """Yield other shares of a card; where memory for keys and values is given, that it is not."""
    given = vllm.kv_cache_gib is not None
    shares = [tenths / 10 for tenths in range(9, 1, -1) if tenths / 10 != vllm.gpu_memory_utilization]
    for name, value in [("kv_cache_gib", None)] if given else [("gpu_memory_utilization", share) for share in shares]:
        said = "none" if value is None else value
        yield Mending(f"engine.vllm.{name} = {said}", _of("engine", vllm=vllm.model_copy(update={name: value})))


def _of_learners(config: RunConfig) -> Iterator[Mending]:
    optimizer = config.optimizer
    if optimizer.micro_batch_tokens > SMALL_PASS:
        yield Mending(f"optimizer.micro_batch_tokens = {SMALL_PASS}", _of("optimizer", micro_batch_tokens=SMALL_PASS))
    if not optimizer.checkpointing and config.roles.reply == "free":
        yield Mending("optimizer.checkpointing = true", _of("optimizer", checkpointing=True))
    if optimizer.processes > 1 and not optimizer.sharded and config.roles.reply == "free":
        yield Mending("optimizer.sharded = true", _of("optimizer", sharded=True))
    if not optimizer.offload and optimizer.name == "adamw":
        yield Mending("optimizer.offload = true", _of("optimizer", offload=True))


def _adapters(config: RunConfig) -> Iterator[Mending]:
    trained = [name for name in config.policies if not config.policy(name).adapted] or ["main"]
    lora = {n: config.policy(n).model_copy(update={"weights": "lora", "rank": 32}) for n in trained}
    if not all(config.policy(name).adapted for name in config.policies) or not config.policies:

        def adapted(config: RunConfig) -> RunConfig:
            ranked = _of("engine", vllm=config.engine.vllm.model_copy(update={"max_lora_rank": 32}))
            engine = ranked(config).engine
            return config.model_copy(update={"policies": {**config.policies, **lora}, "engine": engine})

        yield Mending(f"policies.{trained[0]}.weights = 'lora'", adapted)
