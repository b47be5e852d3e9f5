"""How many adapters an engine mixes in one batch by default: as many as may be needed at once. Those are the live
policies, in a stream also the versions of them that matches in flight started with, and the past opponents that
matchmaking may draw for an iteration. With fewer slots their replies wait for one another; every slot takes memory from
keys and values, so all of them together get only a part of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from arena.gpus import find_gpu, main_memory
from arena.roofline import Shape
from league.config import RunConfig
from league.config.matchmaking import SELF_PLAY, SharesConfig

PART = 0.1  # of an engine's memory, for adapters
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


class AdapterSlots(NamedTuple):
    """How many adapters one batch mixes, and why."""

    number: int
    wanted: int
    fit: int

    def note(self) -> str:
        """Return the sentence that a run prints."""
        if self.number >= self.wanted:
            return f"The engine mixes up to {self.number} adapters in a batch: all that may play at once."
        return (
            f"The engine mixes up to {self.number} adapters in a batch, of {self.wanted} that may play at once; "
            f"{self.fit} take {PART:.0%} of its memory. Set engine.vllm.max_loras for another number."
        )


def adapter_slots(config: RunConfig, shape: Any, memory: float | None = None) -> AdapterSlots:
    """Return the slots of a run's engine. ``shape`` is the base's configuration (``transformers``).

    ``memory`` is that of the engine's device in bytes; None: as it is here.
    """
    settings = config.engine.vllm
    if memory is None:
        gpu = find_gpu() if config.model.device != "cpu" else None
        memory = (gpu.memory if gpu is not None else main_memory()) * settings.gpu_memory_utilization
    return slots_of(config, slot_bytes(shape, settings.max_lora_rank, settings.dtype or config.model.dtype), memory)


def slots_of(config: RunConfig, each: float, memory: float) -> AdapterSlots:
    """Return the slots of an engine with this much memory in bytes, of which a slot takes ``each``."""
    wanted, fit = at_once(config), max(int(PART * memory / each), 1)
    return AdapterSlots(config.engine.vllm.max_loras or min(wanted, fit), wanted, fit)


def at_once(config: RunConfig) -> int:
    """Return how many adapters may play at once."""
    live = max(sum(policy.adapted for policy in config.policies.values()), 1)
    streams = config.async_learners.streams
    versions = 1 + (config.async_learners.batches_ahead + 1 if streams and config.async_learners.batches_ahead else 0)
    past = any(getattr(config.matchmaking, rule) for rule in SharesConfig.model_fields if rule != SELF_PLAY)
    return live * (versions + (config.matchmaking.opponents if past else 0))


def slot_bytes(shape: Any, rank: int, dtype: str) -> int:
    """Return the bytes of one slot: two matrices of the rank beside each linear layer."""
    return Shape.of("", shape.get_text_config().to_dict()).adapter_weights(rank) * BYTES.get(dtype, 4)
