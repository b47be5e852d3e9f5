"""Who meets whom, and is it getting better: population, matchmaking, payoffs, ratings, the loop.

For Python users: ``league.load_config``, ``train``, ``resume``, ``sweep``, ``open_run``, ``match``, ``exploitability``,
``pettingzoo_env`` and the ``register_…`` of plugins. docs/python.md shows them. Each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from games.common.errors import UsageError as UsageError
    from games.registry import make_game as make_game
    from games.registry import register as register_game
    from games.registry import register_environment as register_environment
    from league.cli.python.playing import exploitability as exploitability
    from league.cli.python.playing import match as match
    from league.cli.python.playing import pettingzoo_env as pettingzoo_env
    from league.cli.python.runs import TrainingRun as TrainingRun
    from league.cli.python.runs import open_run as open_run
    from league.cli.python.sweeps import SweptRun as SweptRun
    from league.cli.python.sweeps import sweep as sweep
    from league.cli.python.training import load_config as load_config
    from league.cli.python.training import resume as resume
    from league.cli.python.training import train as train
    from league.cli.python.verifiers_env import load_environment as load_environment
    from league.config import RunConfig as RunConfig
    from league.lab.breeding.rules import register as register_breeding
    from league.population.matchmaking import register as register_matchmaking
    from league.population.matchmaking.branching import register as register_branching
    from league.population.matchmaking.league_roles import register as register_league_role
    from league.population.players.model_engine import register as register_engine
    from league.population.players.scripted import register as register_scripted
    from league.theory.meta_solvers import register_joint_solver as register_joint_solver
    from league.theory.meta_solvers import register_meta_solver as register_meta_solver
    from league.training.starts.rules import register as register_start
    from learners.advantages import register as register_credit
    from roles.cards import register as register_roles

_HOMES = {  # by name: the module that has it, and its name there
    "UsageError": ("games.common.errors", "UsageError"),
    "make_game": ("games.registry", "make_game"),
    "register_game": ("games.registry", "register"),
    "register_environment": ("games.registry", "register_environment"),
    "exploitability": ("league.cli.python.playing", "exploitability"),
    "match": ("league.cli.python.playing", "match"),
    "pettingzoo_env": ("league.cli.python.playing", "pettingzoo_env"),
    "TrainingRun": ("league.cli.python.runs", "TrainingRun"),
    "open_run": ("league.cli.python.runs", "open_run"),
    "SweptRun": ("league.cli.python.sweeps", "SweptRun"),
    "sweep": ("league.cli.python.sweeps", "sweep"),
    "load_config": ("league.cli.python.training", "load_config"),
    "resume": ("league.cli.python.training", "resume"),
    "train": ("league.cli.python.training", "train"),
    "load_environment": ("league.cli.python.verifiers_env", "load_environment"),
    "RunConfig": ("league.config", "RunConfig"),
    "register_breeding": ("league.lab.breeding.rules", "register"),
    "register_branching": ("league.population.matchmaking.branching", "register"),
    "register_league_role": ("league.population.matchmaking.league_roles", "register"),
    "register_meta_solver": ("league.theory.meta_solvers", "register_meta_solver"),
    "register_joint_solver": ("league.theory.meta_solvers", "register_joint_solver"),
    "register_start": ("league.training.starts.rules", "register"),
    "register_matchmaking": ("league.population.matchmaking", "register"),
    "register_engine": ("league.population.players.model_engine", "register"),
    "register_scripted": ("league.population.players.scripted", "register"),
    "register_credit": ("learners.advantages", "register"),
    "register_roles": ("roles.cards", "register"),
}
__all__ = [
    "RunConfig",
    "SweptRun",
    "TrainingRun",
    "UsageError",
    "exploitability",
    "load_config",
    "load_environment",
    "make_game",
    "match",
    "open_run",
    "pettingzoo_env",
    "register_branching",
    "register_breeding",
    "register_credit",
    "register_engine",
    "register_environment",
    "register_game",
    "register_joint_solver",
    "register_league_role",
    "register_matchmaking",
    "register_meta_solver",
    "register_roles",
    "register_scripted",
    "register_start",
    "resume",
    "sweep",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'league' has no attribute {name!r}")
    module, inner = _HOMES[name]
    value = globals()[name] = getattr(importlib.import_module(module), inner)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
