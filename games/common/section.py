"""What every table that a person writes is made of: of a configuration, of a role card."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
NonNegative = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """A frozen table; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
