"""The table ``[programs]``: which seats programs take, where they ask, and how long they may take."""

from __future__ import annotations

from pydantic import Field, field_validator

from games.aliases import full_name
from games.common.section import Positive, Section


class ProgramsConfig(Section):
    """Programs of others that take turns of roles: what they play is what the role's policy has replied to them."""

    roles: tuple[str, ...] = Field((), description='roles whose turns a program takes, as "game/role"; (): none')
    seconds: float = Field(
        60.0,
        gt=0.0,
        le=86_400.0,
        description="from the taking of a turn until it is played, without the time that the model computes; "
        "then the role's conduct says what follows",
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
        description="the reply to the role's own prompt is computed before a program asks, with those of other seats; "
        "false: for programs that never ask it",
    )
    host: str = Field("127.0.0.1", min_length=1, description="where the run listens for programs")
    port: int = Field(8001, ge=0, le=65_535, description="port of that; 0: any that is free")

    @field_validator("roles")
    @classmethod
    def _full_names(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        parts = [role.rpartition("/") for role in roles]
        return tuple(full_name(game) + slash + role for game, slash, role in parts)
