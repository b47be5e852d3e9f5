"""Tools as part of a role's card: what the seat may call, with what, how often and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from games.common.section import Count, Positive, Section

PARAMETER_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


class Tool(Section, strict=True):
    """One tool that a role may call; the game has the function of this name."""

    name: str = Field(description="its name in a call")
    description: str = Field("", description="what it does, as the prompt says")
    parameters: tuple[tuple[str, str], ...] = Field((), description="(name, type) in order; on the card, a table")
    per_turn: Positive | None = Field(None, description="most calls in a turn; None: no limit")
    per_match: Positive | None = Field(8, description="most calls in a match; None: no limit")
    timeout: float = Field(10.0, gt=0.0, le=86_400.0, description="seconds a call may take, at most a day")
    in_flight: Positive = Field(64, description="most calls that run at once; other calls, and their matches, wait")
    retries: Count = Field(0, description="how often a call that fails or times out is retried")
    quick: bool = Field(
        False,
        description="answers from memory: called between two replies rather than alongside other play, so that equal "
        "runs batch equal requests",
    )
    max_output: Positive = Field(1000, description="characters after which output is cut")

    @field_validator("name")
    @classmethod
    def _one_word(cls, name: str) -> str:
        if not name.isidentifier():
            raise ValueError(f'a tool\'s name is one word, such as "search", not {name!r}.')
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
        """Return its name in a call."""
        return f"{self.name}({', '.join(f'{name}: {kind}' for name, kind in self.parameters)})"
