"""Names of games of other libraries: ``LIBRARY:GAME``, or ``LIBRARY:GAME(key=value,…)`` with keys in order."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from games.common.errors import UsageError

Value = int | float | bool | str
LARGEST = 1e9  # of the numbers in a name, either way
MOST_PARAMETERS = 16
_WORD = re.compile(r"[A-Za-z][\w-]{0,63}")  # no path, no address, no name of a module: names come from strangers too


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
        if (read := _read(value)) is None or len(parameters) == MOST_PARAMETERS:
            raise UsageError(
                f"The game name {text[:200]!r} cannot be read: of {part[:80]!r} the value should be true, false, a "
                f"number up to {LARGEST:g}, or one word of letters, digits, - and _; and "
                f"there are at most {MOST_PARAMETERS}."
            )
        parameters[key] = read
    return OutsideName(library, game, parameters)


def _read(value: str) -> Value | None:
    """Return a value as what it looks like: true or false, a number, or a word; None for anything else."""
    if value in ("true", "false"):
        return value == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        return number if math.isfinite(number) and abs(number) <= LARGEST else None
    return value if _WORD.fullmatch(value) else None


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
