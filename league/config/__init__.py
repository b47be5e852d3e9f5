"""A run's frozen configuration: its tables, one per file, how TOML is read, and which combinations are refused.

May import games, roles and learners; no other wing but theory.
"""

from league.config.run import ColdStartConfig, GameConfig, ModelConfig, RolesConfig, RunConfig

__all__ = ["ColdStartConfig", "GameConfig", "ModelConfig", "RolesConfig", "RunConfig"]
