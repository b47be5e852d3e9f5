"""What computes a run: ``[engine]`` plays the language models, ``[programs]`` are others that ask it, and processes
beside the one that plays, here (``[async_learners]``) or on a cluster (``[cluster]``).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from games.aliases import full_name
from games.common.registry import family
from games.common.section import Count, NonNegative, Positive, Section
from league.config.names import EngineName

VllmRank = Literal[8, 16, 32, 64, 128, 256, 320, 512]
VLLM_RANKS: tuple[int, ...] = get_args(VllmRank)
Cpus = Annotated[float, Field(gt=0.0)]


class VllmSettings(Section):
    """vLLM, in processes of its own."""

    max_loras: Positive | None = Field(
        None,
        description="adapters that one batch may mix; None: the live ones and as many past ones as matchmaking may "
        "draw at once, in a tenth of the engine's memory at most",
    )
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


class VllmServerSettings(Section):
    """Servers of vLLM's, started here or given; their sizes are those of ``engine.vllm``."""

    replicas: Positive = Field(1, description="servers that are started here")
    tensor_parallel: Positive = Field(1, description="GPUs of each of them")
    urls: tuple[str, ...] = Field((), description="servers that others keep, in place of those; they read our folders")
    timeout: float = Field(
        600.0, gt=0.0, description="seconds without an answer after which a server is replaced or, if given, left out"
    )
    key_variable: str | None = Field(None, description="environment variable with the key of the given servers")

    @field_validator("urls")
    @classmethod
    def _addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
                raise ValueError(f"{url!r} is no address of a server. Give one such as 'http://localhost:8000'")
        if len(set(urls)) < len(urls):
            raise ValueError("a server is given twice. Give each once")
        return urls


class EngineConfig(Section):
    """Which engine samples replies, and a table for each engine that has settings."""

    kind: EngineName = Field(
        "torch", description="torch: in this process; vllm: in processes of its own; vllm_server: servers"
    )
    vllm: VllmSettings = VllmSettings()
    vllm_server: VllmServerSettings = VllmServerSettings()

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


class ClusterConfig(Section):
    """The Ray actors that `--cluster` starts. Without that option the table is not read."""

    workers: Positive = Field(2, description="processes that play matches")
    engines: Count = Field(
        0,
        description="processes with an engine of language models for all workers; 0: every worker has its own",
    )
    matches: Positive | None = Field(
        None, description="matches in a chunk of a worker; None: a third of its share, with engines a half"
    )
    worker_cpus: Cpus = Field(1.0, description="cores of a worker without an engine")
    engine_cpus: Cpus = Field(1.0, description="cores of an engine, or of a worker that has its own")
    engine_gpus: NonNegative = Field(0.0, description="GPUs of an engine; a part of one, or whole ones")
    learner_cpus: Cpus = Field(1.0, description="cores of a learner (async_learners.processes)")
    learner_gpus: NonNegative = Field(0.0, description="GPUs of a learner; a part of one, or whole ones")
    timeout: float = Field(
        600.0,
        gt=0.0,
        description="seconds without a sign of life, or with work and no progress, after which a process is ended and "
        "replaced; longer than its longest step takes",
    )
    placement: Literal["separate", "shared"] = Field(
        "separate", description="GPUs of engines and learners: each its own, or an engine and a learner on the same"
    )


class AsyncLearnersConfig(Section):
    """Which policies learn in processes of their own, while another process plays."""

    processes: Literal["none", "each"] | dict[str, tuple[str, ...]] = Field(
        "none",
        description="none: the process that plays also learns; each: every policy has a learner process; or the "
        "policies of each learner process, by its name",
    )
    mode: Literal["turns", "ahead", "stream"] | None = Field(
        None,
        description="turns: play, then learn; ahead: play whole iterations before they are learned from; stream: "
        "matches begin as others end; None: turns, or ahead with a max_staleness",
    )
    max_staleness: Count = Field(
        0,
        description="updates by which play may run ahead of learning; 0: they take turns, and the run is the same as "
        "with processes = 'none'",
    )
    begin_ahead: Count | None = Field(
        None,
        description="stream: iterations whose matches may begin before the one that is learned next has ended; None: "
        "max_staleness, so that nothing is older",
    )
    too_old: Literal["drop", "keep"] = Field(
        "drop",
        description="stream: what becomes of trajectories that are older than max_staleness: dropped and counted, or "
        "kept, with the weights of objective.truncate",
    )
    store_megabytes: Positive = Field(1024, description="played records that wait for learners; when full, play waits")

    @property
    def streams(self) -> bool:
        """Whether matches begin as others end."""
        return self.mode == "stream"

    @property
    def batches_ahead(self) -> int:
        """Iterations whose matches may begin before the one that is learned next has ended, in a stream."""
        return self.max_staleness if self.begin_ahead is None else self.begin_ahead
