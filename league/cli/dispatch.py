"""Which command is meant, and how its errors and reports are told."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arena.errors import EngineError, ServerError
from games.common.errors import UsageError, unknown_name
from games.common.text import plain
from league.cli.completion import complete
from league.cli.parser import Parser
from league.cli.parsers.measuring import MEASURING
from league.cli.parsers.playing import PLAYING
from league.cli.parsers.showing import SHOWING
from league.cli.parsers.training import TRAINING
from league.cli.plugins import load_plugins

MODULES = {"import": "import_matches", "serve-seats": "serve_seats"}  # of commands that no module can be named after
GROUPS = {"training": TRAINING, "playing": PLAYING, "measuring": MEASURING, "showing": SHOWING}


# What a place or a device refuses, which is no fault of this program: told in a sentence.
_REFUSED = {
    getattr(errno, name)
    for name in (
        *("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EFBIG", "EIO", "EMFILE", "ENFILE"),
        *("ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "ENAMETOOLONG", "ELOOP", "ENXIO", "ENODEV"),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 if a server failed, 2 for a user's mistake, 130 after Ctrl-C."""
    _open_streams()
    try:
        return _flushed(_dispatch, list(sys.argv[1:] if argv is None else argv))
    except UsageError as error:
        return _fail(str(error), 2)
    except EngineError as error:
        if not isinstance(error.__cause__, ServerError):  # a bug in this program: show its traceback
            raise
        return _fail(str(error), 1)
    except KeyboardInterrupt as stop:
        print(f"\n{plain(str(stop)) or 'Stopped.'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # it is standard output that takes no more
            _discard_output()
        return _fail(f"{error.filename or 'Nothing more can be written'}: {error.strerror}.", 2)


def _open_streams() -> None:
    """Let what is printed go nowhere where whoever started this process has closed standard output or error."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:
            setattr(sys, stream, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # until the process ends


def _flushed(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command and write out what it has printed: at the end of the process it would be too late to say a word."""
    try:
        return command(argv)
    finally:
        sys.stdout.flush()


def _discard_output() -> None:
    """Let whatever is still to be written to standard output go nowhere, so that it cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> int:
    """Tell what went wrong; return the exit status."""
    print(f"league: {plain(message)}", file=sys.stderr)
    return status


def _dispatch(argv: list[str]) -> int:
    """Parse and run a command; the report of one that has ``--json`` is printed as JSON or as text.

    What such a command keeps is written after that, by its module's ``keep``: a disk that fills up while it works
    does not take the report with it.
    """
    parser, commands = _parsers()
    complete(parser)
    if not argv:
        parser.print_help()
        return 0
    if not argv[0].startswith("-") and argv[0] not in commands:
        raise unknown_name("command", argv[0], commands)
    is_command = argv[0] in commands
    _check_options(argv[is_command:], commands[argv[0]] if is_command else parser)
    arguments = parser.parse_args(argv)
    load_plugins(arguments)
    module = importlib.import_module(arguments.module)
    if "json" not in arguments:
        return int(module.run(arguments))
    with contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext():
        report = module.run(arguments)
    if arguments.json:
        print(json.dumps(module.to_json(report), indent=2, allow_nan=False))
    else:
        from league.training.monitors.terminal import Terminal  # rich takes a moment to import

        module.print_report(report, Terminal(soft_wrap=True))
    if hasattr(module, "keep"):
        sys.stdout.flush()
        module.keep(report)
    return 0


def _check_options(argv: Sequence[str], parser: Parser) -> None:
    """Raise UsageError for an option that does not exist: argparse reports it last, and suggests no other."""
    options = [option for action in parser._actions for option in action.option_strings]
    for argument in argv:
        option = argument.partition("=")[0]
        if option.startswith("--") and option not in [*options, "--"]:
            raise unknown_name(f"option of {parser.prog}", option, options)


class _Version(argparse.Action):
    """``--version``: print the version, which is read only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("llm-league")
        except PackageNotFoundError:
            number = "from its folder, not installed"
        print(f"league {number} (Python {platform.python_version()})")
        parser.exit()


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the whole command and those of its commands by name."""
    parser = Parser(
        prog="league",
        description="Train language-model players by self-play in text games, and see how good they are.",
        epilog="start with:  league train pocket\nthen:        league match runs/pocket random --game kuhn_poker\n"
        "what is there:  league presets, league games, league settings, league plugins\n"
        "how it works:  league docs\n"
        "something is wrong:  league doctor",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for group, commands in GROUPS.items():
        for name, add in commands.items():
            add(subparsers)
            subparsers.choices[name].set_defaults(module=f"league.cli.{group}.{MODULES.get(name, name)}")
    return parser, dict(subparsers.choices)
