"""Tools as part of a role's card: what the seat may call, with what, how often and for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from games.errors import UsageError, unknown_name

PARAMETER_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that a role may call; the game has the function of this name."""

    name: str
    description: str = ""  # for the prompt
    parameters: tuple[tuple[str, str], ...] = ()  # (name, type) in order
    per_turn: int | None = None  # most calls in a turn; None: no limit of its own
    per_match: int | None = 8
    timeout: float | None = None  # seconds; None: it is waited for
    max_output: int = 1000  # characters; longer output is cut

    def signature(self) -> str:
        """Return how it is called."""
        return f"{self.name}({', '.join(f'{name}: {kind}' for name, kind in self.parameters)})"


_TYPES: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "description": (str,),
    "parameters": (dict,),
    "per_turn": (int,),
    "per_match": (int,),
    "timeout": (int, float),
    "max_output": (int,),
}


def read_tools(tables: Sequence[Any], where: str) -> tuple[Tool, ...]:
    """Return the tools of a role card's ``tools``. Raises UsageError for a table that breaks a rule."""
    tools = tuple(_tool(table, where) for table in tables)
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise UsageError(f"{where}: two tools have the same name; give each its own ({', '.join(names)}).")
    return tools


def _tool(table: Any, where: str) -> Tool:
    if not isinstance(table, dict) or not isinstance(table.get("name"), str) or not table["name"].isidentifier():
        raise UsageError(f'{where}: a tool is a table with a name that is one word, {{name = "search", ...}}.')
    where = f"{where}, tool {table['name']!r}"
    for key, value in table.items():
        if key not in _TYPES:
            raise unknown_name(f"key in {where}", key, _TYPES)
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in _TYPES[key])
            raise UsageError(f"{where}: {key} = {value!r} is not of type {expected}.")
    parameters = table.get("parameters", {})
    for name, kind in parameters.items():
        if not name.isidentifier() or kind not in PARAMETER_TYPES:
            raise UsageError(f"{where}: parameter {name} = {kind!r} is not one of {', '.join(PARAMETER_TYPES)}.")
    tool = Tool(**{**table, "parameters": tuple(parameters.items())})
    _check(tool, where)
    return tool


def _check(tool: Tool, where: str) -> None:
    limits = {"per_turn": tool.per_turn, "per_match": tool.per_match, "max_output": tool.max_output}
    for key, value in limits.items():
        if value is not None and value < 1:
            raise UsageError(f"{where}: {key} = {value} is less than 1.")
    if tool.timeout is not None and not (math.isfinite(tool.timeout) and tool.timeout > 0):
        raise UsageError(f"{where}: timeout = {tool.timeout} is not a number of seconds above 0.")
