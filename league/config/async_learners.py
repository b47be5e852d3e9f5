"""The table ``[async_learners]``: policies that learn in processes of their own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from games.common.section import Count, Positive, Section


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
