"""Tools as part of a role's card: what the seat may call, with what, how often and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from games.common.section import Count, Positive, Section

PARAMETER_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


class Tool(Section, strict=True):
    """One tool that a role may call; the game has the function of this name."""

    name: str = Field(description="how it is called")
    description: str = Field("", description="what it does, for the prompt")
    parameters: tuple[tuple[str, str], ...] = Field((), description="(name, type) in order; a table on the card")
    per_turn: Positive | None = Field(None, description="most calls in a turn; None: no limit of its own")
    per_match: Positive | None = Field(8, description="most calls in a match; None: no limit of its own")
    timeout: float = Field(10.0, gt=0.0, le=86_400.0, description="seconds that a call may take, a day at most")
    in_flight: Positive = Field(64, description="most calls of it that run at once; others wait, as do their matches")
    retries: Count = Field(0, description="how often a call that fails or takes too long is made again")
    quick: bool = Field(
        False,
        description="answers from memory: called between two replies, not beside other play, so that equal runs put "
        "equal requests into a batch",
    )
    max_output: Positive = Field(1000, description="characters after which output is cut")

    @field_validator("name")
    @classmethod
    def _one_word(cls, name: str) -> str:
        if not name.isidentifier():
            raise ValueError(f'a tool\'s name is one word, such as "search", and not {name!r}.')
        return name

    @field_validator("parameters", mode="before")
    @classmethod
    def _typed_by_name(cls, table: Any, info: ValidationInfo) -> tuple[tuple[str, str], ...]:
        tool = f"tool {info.data.get('name', '?')!r}"
        if not isinstance(table, Mapping):
            raise ValueError(f'{tool}: parameters = {table!r} is not a table of types by name, {{words = "str"}}.')
        for name, kind in table.items():
            if not name.isidentifier() or kind not in PARAMETER_TYPES:
                raise ValueError(f"{tool}: parameter {name} = {kind!r} is not one of {', '.join(PARAMETER_TYPES)}.")
        return tuple(table.items())

    def signature(self) -> str:
        """Return how it is called."""
        return f"{self.name}({', '.join(f'{name}: {kind}' for name, kind in self.parameters)})"
