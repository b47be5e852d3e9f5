"""``league serve-seats``: train a run, new or begun, in which programs take the turns of roles through an API."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from games.common.errors import UsageError
from league.cli.training.train import new_run_dir, run_session
from league.config import RunConfig
from league.config.load import load, load_run_config
from league.population.storage.run_dir import find_run
from league.training.loop.readiness import check_start
from league.training.monitors.terminal import Terminal


def run(arguments: argparse.Namespace) -> int:
    """Train; return 0 when the run is complete, 130 when it was stopped, 1 when an update failed."""
    begun = None if arguments.run_dir is not None else find_run(arguments.run)
    given = {"host": arguments.host, "port": arguments.port, "allow_hosts": tuple(arguments.allow_host) or None}
    address = {key: value for key, value in given.items() if value is not None}
    if begun is not None:
        _check_begun(begun, arguments)
        run_dir = begun
    else:
        config = _new_config(arguments, address)
        run_dir = new_run_dir(Path(arguments.run).stem, arguments.run_dir)
        check_start(config, "")
    console = Terminal(soft_wrap=True)
    console.print(f"The run is kept in {run_dir}. Ctrl-C stops it so that it can be resumed.", markup=False)
    from league.training.loop.session import resume, train  # torch is slow to import

    return run_session(
        lambda: train(config, run_dir) if begun is None else resume(run_dir, address=address), run_dir, console
    )


def _new_config(arguments: argparse.Namespace, address: dict[str, Any]) -> RunConfig:
    """Return the configuration of a new run. Raises UsageError for one in which no program has a role."""
    settings = [*arguments.set]
    if arguments.seed is not None:
        settings.append(f"seed={arguments.seed}")
    if arguments.role:
        settings.append(f"programs.roles={list(arguments.role)}")
    own = {key: list(value) if isinstance(value, tuple) else value for key, value in address.items()}
    config = load(arguments.run, [*settings, *(f"programs.{key}={value}" for key, value in own.items())])
    if not config.programs.roles:
        raise UsageError("No role is a program's: name one with --role, as --role kuhn_poker/first.")
    return config


def _check_begun(run_dir: Path, arguments: argparse.Namespace) -> None:
    """Raise UsageError for a run that no program has a role in, and for settings that it did not begin with."""
    if arguments.set or arguments.seed is not None:
        raise UsageError(
            f"{run_dir} goes on with the configuration that it began with. Leave --set and --seed out, or begin a new "
            "run: league serve-seats PRESET --role GAME/ROLE --run-dir DIR"
        )
    roles = load_run_config(run_dir).programs.roles
    if arguments.role and set(arguments.role) != set(roles):
        raise UsageError(
            f"{run_dir} began with programs.roles = {list(roles)}, and --role names {', '.join(arguments.role)}. Leave "
            "--role out, or begin a new run: league serve-seats PRESET --role GAME/ROLE --run-dir DIR"
        )
    if not roles:
        raise UsageError(
            f"{run_dir} is a run without programs: programs.roles is empty, and a run keeps its settings. Begin a new "
            "one: league serve-seats PRESET --role GAME/ROLE --run-dir DIR"
        )
