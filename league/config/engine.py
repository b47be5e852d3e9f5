"""The tables ``[engine]``, what runs the language models, and ``[programs]``, programs that send it requests."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, field_validator

from games.aliases import full_name
from games.common.registry import family
from games.common.section import Positive, Section
from league.config.names import EngineName

VllmRank = Literal[8, 16, 32, 64, 128, 256, 320, 512]
VLLM_RANKS: tuple[int, ...] = get_args(VllmRank)


class VllmSettings(Section):
    """vLLM, in processes of its own."""

    max_loras: Positive = Field(4, description="adapters that one batch may mix; a population may be larger")
    max_lora_rank: VllmRank = Field(16, description="largest rank of an adapter")
    max_model_len: Positive = Field(2048, description="tokens of the longest prompt and its reply together")
    gpu_memory_utilization: float = Field(0.5, gt=0.0, le=1.0, description="share of a GPU's memory for the engine")
    kv_cache_gib: float | None = Field(
        None, gt=0.0, description="memory for keys and values; None: what the share leaves"
    )
    dtype: Literal["float32", "bfloat16"] | None = Field(None, description="type of its weights; None: model.dtype")
    sleep: bool = Field(
        False,
        description="give the GPU's memory back while policies learn, for an engine and a learner that share it",
    )


class EngineConfig(Section):
    """Which engine samples replies, and a table for each engine that has settings."""

    kind: EngineName = Field("torch", description="torch: in this process; vllm: in processes of its own")
    vllm: VllmSettings = VllmSettings()

    @property
    def in_process(self) -> bool:
        """Whether it runs in the process of the run."""
        return not family("engines")[self.kind].separate_process

    @property
    def wants_gpu(self) -> bool:
        """Whether the engine is there for GPUs."""
        return bool(family("engines")[self.kind].wants_gpu)


class ProgramsConfig(Section):
    """External programs that take roles' turns: what they play is what the role's policy has replied to them."""

    roles: tuple[str, ...] = Field((), description='roles whose turns a program takes, as "game/role"; (): none')
    seconds: float = Field(
        60.0,
        gt=0.0,
        le=86_400.0,
        description="seconds from taking a turn until playing it, not counting the model's time; after them the "
        "role's conduct says what follows",
    )
    absence: float | None = Field(
        None,
        gt=0.0,
        le=86_400.0,
        description="seconds that a turn waits for a program to take it; None: until one comes",
    )
    completions: Positive = Field(64, description="most completions that a program asks for in a turn")
    ahead: bool = Field(
        True,
        description="compute the reply to the role's own prompt before a program asks, together with other seats' "
        "replies; false: for programs that never ask it",
    )
    several_seats: bool = Field(
        False, description="let a program take several seats of one match, and so see what each of them sees"
    )
    host: str = Field("127.0.0.1", min_length=1, description="address at which the run listens for programs")
    port: int = Field(8001, ge=0, le=65_535, description="port of that address; 0: any free port")
    allow_hosts: tuple[str, ...] = Field(
        (), description="names that programs may call this machine by, beside its address; others are refused"
    )

    @field_validator("roles")
    @classmethod
    def _full_names(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        parts = [role.rpartition("/") for role in roles]
        return tuple(full_name(game) + slash + role for game, slash, role in parts)
