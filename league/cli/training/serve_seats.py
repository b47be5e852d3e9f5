"""``league lab serve-seats``: train a new run, or resume one, in which programs play roles through an API."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from games.common.errors import UsageError
from league.cli.parser import SEED, Parser, add_allow_host, whole_number

if TYPE_CHECKING:
    from league.config import RunConfig

EXAMPLES = (
    "pocket-returns --role kuhn_poker/first --run-dir runs/agents",
    "runs/agents --port 8002",
)
NOTES = "league show docs serving says what programs send. An existing run continues."


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument(
        "run", metavar="RUN|PRESET|FILE.toml", help="a run to resume, or a preset or .toml file to train from scratch"
    )
    parser.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="GAME/ROLE",
        help="a role that programs play; may be given several times (default: programs.roles)",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0: open to everybody on the network (default: the run's)",
    )
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), metavar="N", help="0 takes any free port (default: the run's)"
    )
    add_allow_host(parser)
    parser.add_argument("--run-dir", metavar="DIR", help="where to keep a new run (default: a new folder under runs/)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="of a new run: seed of every stream of randomness")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="of a new run: change one setting"
    )


def run(arguments: argparse.Namespace) -> int:
    """Train; return 0 when the run is complete, 130 when it was stopped, 1 when an update failed."""
    from league.cli.training.train import new_run_dir, run_session
    from league.population.storage.run_dir import find_run
    from league.training.loop.readiness import check_start
    from league.training.monitors.terminal import Terminal

    begun = None if arguments.run_dir is not None else find_run(arguments.run)
    options = {"host": arguments.host, "port": arguments.port, "allow_hosts": tuple(arguments.allow_host) or None}
    address = {key: value for key, value in options.items() if value is not None}
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
    """Return the configuration of a new run. Raises UsageError if no program has a role in it."""
    from league.config.load import load

    settings = [*arguments.set]
    if arguments.seed is not None:
        settings.append(f"seed={arguments.seed}")
    if arguments.role:
        settings.append(f"programs.roles={list(arguments.role)}")
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in address.items()}
    config = load(arguments.run, [*settings, *(f"programs.{key}={value}" for key, value in plain.items())])
    if not config.programs.roles:
        raise UsageError("No role is played by a program: name one with --role, such as --role kuhn_poker/first.")
    return config


def _check_begun(run_dir: Path, arguments: argparse.Namespace) -> None:
    """Raise UsageError for a run in which no program has a role, and for settings that differ from its own."""
    from league.config.load import load_run_config

    if arguments.set or arguments.seed is not None:
        raise UsageError(
            f"{run_dir} continues with the configuration that it began with. Leave out --set and --seed, or start a "
            "new run: league lab serve-seats PRESET --role GAME/ROLE --run-dir DIR"
        )
    roles = load_run_config(run_dir).programs.roles
    if arguments.role and set(arguments.role) != set(roles):
        raise UsageError(
            f"{run_dir} began with programs.roles = {list(roles)}, and --role names {', '.join(arguments.role)}. "
            "Leave out --role, or start a new run: league lab serve-seats PRESET --role GAME/ROLE --run-dir DIR"
        )
    if not roles:
        raise UsageError(
            f"{run_dir} is a run without programs: programs.roles is empty, and a run keeps its settings. Start a new "
            "one: league lab serve-seats PRESET --role GAME/ROLE --run-dir DIR"
        )
