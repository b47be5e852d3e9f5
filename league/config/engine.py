"""What computes a run: the engine of its language models (``[engine]``), outside programs that query it
(``[programs]``), and further processes, on this machine (``[async_learners]``) or on a cluster (``[cluster]``).
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
    """vLLM, in separate processes."""

    max_loras: Positive | None = Field(
        None,
        description="adapters that one batch may mix; None: the live ones and as many past ones as matchmaking may "
        "draw at once, in at most a tenth of the engine's memory",
    )
    max_lora_rank: VllmRank = Field(16, description="largest rank of an adapter")
    max_model_len: Positive = Field(2048, description="tokens of the longest prompt and its reply together")
    gpu_memory_utilization: float = Field(0.5, gt=0.0, le=1.0, description="share of a GPU's memory for the engine")
    kv_cache_gib: float | None = Field(
        None, gt=0.0, description="memory for keys and values; None: the rest of the share"
    )
    dtype: Literal["float32", "bfloat16"] | None = Field(None, description="dtype of its weights; None: model.dtype")
    sleep: bool = Field(
        False,
        description="give back the GPU's memory while policies learn, for an engine and a learner that share it",
    )


class VllmServerSettings(Section):
    """vLLM servers, started here or given; their sizes are those of ``engine.vllm``."""

    replicas: Positive = Field(1, description="servers to start on this machine")
    tensor_parallel: Positive = Field(1, description="GPUs of each of them")
    urls: tuple[str, ...] = Field(
        (), description="servers run by others, to use instead; they must be able to read the run's folder"
    )
    timeout: float = Field(
        600.0,
        gt=0.0,
        description="seconds without an answer after which a server is replaced or, if run by others, dropped",
    )
    key_variable: str | None = Field(None, description="environment variable with the key for those servers")

    @field_validator("urls")
    @classmethod
    def _addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
                raise ValueError(f"{url!r} is not an address of a server. Give one such as 'http://localhost:8000'")
        if len(set(urls)) < len(urls):
            raise ValueError("a server is given twice. Give each one once")
        return urls


class EngineConfig(Section):
    """Which engine samples replies, and a table for each engine that has settings."""

    kind: EngineName = Field(
        "torch", description="torch: in this process; vllm: in separate processes; vllm_server: servers"
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
    """External programs that play roles: they choose among what the role's policy has replied to them."""

    roles: tuple[str, ...] = Field((), description='roles that programs play, as "game/role"; (): none')
    seconds: float = Field(
        60.0,
        gt=0.0,
        le=86_400.0,
        description="seconds to play a turn once taken, not counting the model's time; after that the role's conduct "
        "decides",
    )
    absence: float | None = Field(
        None,
        gt=0.0,
        le=86_400.0,
        description="seconds that a turn waits for a program; None: until one comes",
    )
    completions: Positive = Field(64, description="most completions a program may ask for in a turn")
    ahead: bool = Field(
        True,
        description="compute the reply to the role's own prompt ahead of time, together with other seats' replies; "
        "false: for programs that never use it",
    )
    several_seats: bool = Field(
        False, description="let a program play several seats of one match, so that it sees what each of them sees"
    )
    host: str = Field("127.0.0.1", min_length=1, description="address at which the run listens for programs")
    port: int = Field(8001, ge=0, le=65_535, description="port to listen on; 0: any free port")
    allow_hosts: tuple[str, ...] = Field(
        (), description="further host names by which programs may reach this machine; others are refused"
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
        description="processes with a language-model engine shared by all workers; 0: every worker has its own",
    )
    matches: Positive | None = Field(
        None, description="matches in a worker's chunk; None: a third of its share, or half with engines"
    )
    worker_cpus: Cpus = Field(1.0, description="cores of a worker without an engine")
    engine_cpus: Cpus = Field(1.0, description="cores of an engine, or of a worker with its own engine")
    engine_gpus: NonNegative = Field(0.0, description="GPUs of an engine: a fraction of one, or whole ones")
    learner_cpus: Cpus = Field(1.0, description="cores of a learner (async_learners.processes)")
    learner_gpus: NonNegative = Field(0.0, description="GPUs of a learner: a fraction of one, or whole ones")
    timeout: float = Field(
        600.0,
        gt=0.0,
        description="seconds without a sign of life, or with work but no progress, after which a process is replaced; "
        "must exceed its longest step",
    )
    placement: Literal["separate", "shared"] = Field(
        "separate", description="GPUs of engines and learners: separate, or an engine and a learner sharing one"
    )


class AsyncLearnersConfig(Section):
    """Which policies learn in separate processes, while another process plays."""

    processes: Literal["none", "each"] | dict[str, tuple[str, ...]] = Field(
        "none",
        description="none: the process that plays also learns; each: every policy has a learner process; or lists of "
        "policies by the name of their learner process",
    )
    mode: Literal["turns", "ahead", "stream"] | None = Field(
        None,
        description="turns: play, then learn; ahead: play whole iterations ahead of learning; stream: matches start "
        "as others end; None: turns, or ahead if max_staleness is set",
    )
    max_staleness: Count = Field(
        0,
        description="updates by which play may run ahead of learning; 0: they take turns, and the run is the same as "
        "with processes = 'none'",
    )
    begin_ahead: Count | None = Field(
        None,
        description="stream: how many iterations' matches may start before the one to be learned next has ended; "
        "None: max_staleness, so that nothing is older",
    )
    too_old: Literal["drop", "keep"] = Field(
        "drop",
        description="stream: what happens to trajectories older than max_staleness: dropped and counted, or kept, "
        "with the weights of objective.truncate",
    )
    store_megabytes: Positive = Field(
        1024, description="played records that may wait for learners; when full, play waits"
    )

    @property
    def streams(self) -> bool:
        """Whether matches start as others end."""
        return self.mode == "stream"

    @property
    def batches_ahead(self) -> int:
        """How many iterations' matches may start before the one to be learned next has ended, in a stream."""
        return self.max_staleness if self.begin_ahead is None else self.begin_ahead
