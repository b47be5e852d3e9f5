"""How the games written here are named: the parameters that differ from their defaults, in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def game_name(base: str, make: Callable[..., object], **parameters: int) -> str:
    """Return the name under which the registry makes the game with these parameters of its constructor."""
    known = inspect.signature(make).parameters
    given = [f"{key}={value}" for key, value in parameters.items() if value != known[key].default]
    return f"{base}({','.join(given)})" if given else base
