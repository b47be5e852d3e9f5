"""Names of games of other libraries: ``LIBRARY:GAME``, or ``LIBRARY:GAME(key=value,…)`` with keys in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from games.common.errors import UsageError

Value = int | float | bool | str


class OutsideName(NamedTuple):
    """A name in its parts."""

    library: str
    game: str  # as the library calls it
    parameters: Mapping[str, Value]

    def __str__(self) -> str:
        """Return the one way to write it."""
        settings = ",".join(f"{key}={_written(value)}" for key, value in sorted(self.parameters.items()))
        return f"{self.library}:{self.game}" + (f"({settings})" if settings else "")


def read_name(text: str) -> OutsideName:
    """Return a name's parts. Raises UsageError for one that cannot be read."""
    library, _, rest = text.partition(":")
    game, bracket, inside = rest.partition("(")
    if not game or (bracket and not inside.endswith(")")):
        raise UsageError(f"The game name {text!r} cannot be read. Write {library}:GAME, or {library}:GAME(key=value).")
    parameters: dict[str, Value] = {}
    for part in filter(None, inside.removesuffix(")").split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not key.isidentifier() or key in parameters or not value:
            raise UsageError(f"The game name {text!r} cannot be read: {part!r} should be key=value, each key once.")
        parameters[key] = _read(value)
    return OutsideName(library, game, parameters)


def _read(value: str) -> Value:
    """Return a value as what it looks like: true or false, a number, or a word."""
    if value in ("true", "false"):
        return value == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
