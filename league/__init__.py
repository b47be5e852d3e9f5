"""Who meets whom, and is it getting better: population, matchmaking, payoffs, ratings, the loop.

For Python users: ``league.load_config``, ``train``, ``resume``, ``sweep``, ``open_run``, ``match``, ``exploitability``,
``credit_check``, ``ratings``, ``pettingzoo_env`` and the ``register_…`` of plugins. docs/python.md shows them. Each is
loaded when it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from games.common.errors import UsageError as UsageError
    from games.privileged import register as register_privileged
    from games.registry import make_game as make_game
    from games.registry import register as register_game
    from games.registry import register_environment as register_environment
    from league.cli.python.playing import credit_check as credit_check
    from league.cli.python.playing import exploitability as exploitability
    from league.cli.python.playing import match as match
    from league.cli.python.playing import pettingzoo_env as pettingzoo_env
    from league.cli.python.playing import ratings as ratings
    from league.cli.python.runs import TrainingRun as TrainingRun
    from league.cli.python.runs import open_run as open_run
    from league.cli.python.sweeps import SweptRun as SweptRun
    from league.cli.python.sweeps import sweep as sweep
    from league.cli.python.training import load_config as load_config
    from league.cli.python.training import resume as resume
    from league.cli.python.training import train as train
    from league.cli.python.trl_rollouts import trl_rollouts as trl_rollouts
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
    from league.training.board.loggers import register as register_logger
    from league.training.board.observers import register_figure as register_figure
    from league.training.board.observers import register_monitor as register_monitor
    from league.training.evidence.sources import register as register_evidence
    from league.training.monitors.alarms import register as register_alarm
    from league.training.snapshots.evaluations import register as register_evaluation
    from league.training.starts.rules import register as register_start
    from learners.advantages import register as register_credit
    from learners.losses import register as register_loss
    from learners.selection import register as register_selection
    from learners.values import register as register_estimator
    from roles.cards import register as register_roles
    from roles.slots import register as register_slot

_HOMES = {  # by name: the module that has it, and its name there
    "UsageError": ("games.common.errors", "UsageError"),
    "make_game": ("games.registry", "make_game"),
    "register_game": ("games.registry", "register"),
    "register_privileged": ("games.privileged", "register"),
    "register_environment": ("games.registry", "register_environment"),
    "credit_check": ("league.cli.python.playing", "credit_check"),
    "exploitability": ("league.cli.python.playing", "exploitability"),
    "match": ("league.cli.python.playing", "match"),
    "pettingzoo_env": ("league.cli.python.playing", "pettingzoo_env"),
    "ratings": ("league.cli.python.playing", "ratings"),
    "TrainingRun": ("league.cli.python.runs", "TrainingRun"),
    "open_run": ("league.cli.python.runs", "open_run"),
    "SweptRun": ("league.cli.python.sweeps", "SweptRun"),
    "sweep": ("league.cli.python.sweeps", "sweep"),
    "load_config": ("league.cli.python.training", "load_config"),
    "resume": ("league.cli.python.training", "resume"),
    "train": ("league.cli.python.training", "train"),
    "trl_rollouts": ("league.cli.python.trl_rollouts", "trl_rollouts"),
    "load_environment": ("league.cli.python.verifiers_env", "load_environment"),
    "RunConfig": ("league.config", "RunConfig"),
    "register_breeding": ("league.lab.breeding.rules", "register"),
    "register_branching": ("league.population.matchmaking.branching", "register"),
    "register_league_role": ("league.population.matchmaking.league_roles", "register"),
    "register_meta_solver": ("league.theory.meta_solvers", "register_meta_solver"),
    "register_joint_solver": ("league.theory.meta_solvers", "register_joint_solver"),
    "register_slot": ("roles.slots", "register"),
    "register_start": ("league.training.starts.rules", "register"),
    "register_matchmaking": ("league.population.matchmaking", "register"),
    "register_engine": ("league.population.players.model_engine", "register"),
    "register_scripted": ("league.population.players.scripted", "register"),
    "register_alarm": ("league.training.monitors.alarms", "register"),
    "register_figure": ("league.training.board.observers", "register_figure"),
    "register_logger": ("league.training.board.loggers", "register"),
    "register_monitor": ("league.training.board.observers", "register_monitor"),
    "register_credit": ("learners.advantages", "register"),
    "register_evaluation": ("league.training.snapshots.evaluations", "register"),
    "register_loss": ("learners.losses", "register"),
    "register_evidence": ("league.training.evidence.sources", "register"),
    "register_estimator": ("learners.values", "register"),
    "register_selection": ("learners.selection", "register"),
    "register_roles": ("roles.cards", "register"),
}
__all__ = [
    "RunConfig",
    "SweptRun",
    "TrainingRun",
    "UsageError",
    "credit_check",
    "exploitability",
    "load_config",
    "load_environment",
    "make_game",
    "match",
    "open_run",
    "pettingzoo_env",
    "ratings",
    "register_alarm",
    "register_branching",
    "register_breeding",
    "register_credit",
    "register_engine",
    "register_environment",
    "register_estimator",
    "register_evaluation",
    "register_evidence",
    "register_figure",
    "register_game",
    "register_joint_solver",
    "register_league_role",
    "register_logger",
    "register_loss",
    "register_matchmaking",
    "register_meta_solver",
    "register_monitor",
    "register_privileged",
    "register_roles",
    "register_scripted",
    "register_selection",
    "register_slot",
    "register_start",
    "resume",
    "sweep",
    "train",
    "trl_rollouts",
]


OTHERS = ("games", "roles", "arena", "learners")  # the packages that are installed beside this one


def check_packages() -> None:
    """Raise ImportError where Python finds a person's own ``games`` or ``roles`` before those of the league."""
    own = Path(__file__).parents[1]
    for name in OTHERS:
        known = sys.modules.get(name)
        spec = importlib.util.find_spec(name) if known is None else known.__spec__
        found = getattr(known, "__file__", None) if spec is None else spec.origin
        if found is None:
            continue  # nothing of the name, or a folder without __init__.py, which hides nothing
        file = Path(found)
        if own != file.parents[1] and own.resolve() != file.resolve().parents[1]:
            hiding = file.parent if file.stem == "__init__" else file
            raise ImportError(
                f"{hiding} hides the league's own package {name!r}, which is in {own}: Python looks beside your "
                "program first. Rename yours, or move your program elsewhere."
            )


def check_for_command() -> None:
    """Check the packages for the command line, where a mistake ends in its sentence alone."""
    try:
        check_packages()
    except ImportError as error:
        sys.stderr.write(f"league: {error}\n")
        raise SystemExit(2) from None


_started = getattr(sys, "argv", [])[:1]
if _started and Path(_started[0]).stem == "league":  # the command itself
    check_for_command()
elif _started != ["-m"]:  # `python -m league` first leaves the current folder out: see __main__.py
    check_packages()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'league' has no attribute {name!r}")
    module, inner = _HOMES[name]
    value = globals()[name] = getattr(importlib.import_module(module), inner)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
