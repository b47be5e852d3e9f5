"""Names of native games: a base name and the parameters that differ from their defaults, in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def game_name(base: str, make: Callable[..., object], /, **parameters: int) -> str:
    """Return the name by which the registry makes the game with these parameters of its constructor."""
    defaults = inspect.signature(make).parameters
    settings = [f"{key}={value}" for key, value in parameters.items() if value != defaults[key].default]
    return f"{base}({','.join(settings)})" if settings else base
