"""The table of the configuration that says which engine plays the language models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from league.sections import Positive, Section

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # for which vLLM can be made


class EngineConfig(Section):
    """Who samples replies: this process (torch), or vLLM in processes of its own, whose settings the others are."""

    kind: Literal["torch", "vllm"] = Field("torch", description="torch: in this process; vllm: beside it")
    max_loras: Positive = Field(4, description="adapters that one batch may mix; a population may be larger")
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] = Field(16, description="largest rank of an adapter")
    max_model_len: Positive = Field(2048, description="tokens of the longest prompt and its reply together")
    gpu_memory_utilization: float = Field(0.5, gt=0.0, le=1.0, description="share of a GPU's memory for the engine")
    kv_cache_gib: float | None = Field(
        None, gt=0.0, description="memory for keys and values; None: what the share leaves"
    )
    dtype: Literal["float32", "bfloat16"] | None = Field(None, description="type of its weights; None: model.dtype")
    sleep: bool = Field(
        False,
        description="it gives a GPU's memory back while policies learn, for engine and learner that share one",
    )
