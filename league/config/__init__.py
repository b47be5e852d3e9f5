"""A run's frozen configuration: its tables, one per file, how TOML is read, and which combinations are refused.

May import games, roles and learners; no other wing but theory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from league.config.run import ColdStartConfig, GameConfig, ModelConfig, RolesConfig, RunConfig

__all__ = ["CONFIG_FILE", "ColdStartConfig", "GameConfig", "ModelConfig", "RolesConfig", "RunConfig"]

CONFIG_FILE = "config.toml"  # in a run directory


def __getattr__(name: str) -> Any:
    """Return a table's class, which is loaded when it is first used: all of them take half a second to build."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from league.config import run

    value = globals()[name] = getattr(run, name)
    return value
