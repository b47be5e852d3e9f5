"""The tables ``[async_learners]`` and ``[cluster]``: processes beside the one that plays, here or on a cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from games.common.section import Count, NonNegative, Positive, Section

Cpus = Annotated[float, Field(gt=0.0)]


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
    max_staleness: Count = Field(
        0,
        description="updates by which play may run ahead of learning; 0: they take turns, and the run is the same as "
        "with processes = 'none'",
    )
    store_megabytes: Positive = Field(1024, description="played records that wait for learners; when full, play waits")
