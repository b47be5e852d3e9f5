"""The base class of every table that a user writes, in a configuration or a role card."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from games.common.limits import LARGEST_COUNT as LARGEST_COUNT
from games.common.limits import LARGEST_SEED as LARGEST_SEED

Positive = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
LearningRate = Annotated[float, Field(ge=0.0, le=1e30)]  # what single precision holds
NonNegative = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """A frozen table; unknown keys, and numbers that are not finite, are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
