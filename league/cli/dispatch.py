"""Finding the command to run, and printing its errors and reports."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import errno
import io
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from games.common.errors import UsageError, unknown_name
from games.common.text import plain
from league.cli.commands import BEHIND, COMMANDS, find, screen, sentence_of, written
from league.cli.completion import complete
from league.cli.parser import Parser, add_command, fill
from league.cli.plugins import load_plugins

# Refused by a folder or a device, which is not this program's fault: reported in a sentence.
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
        words = list(sys.argv[1:] if argv is None else argv)
        status = _flushed(_dispatch, words)
        if words and words[0] in COMMANDS and (full := written(words[0])) != words[0]:
            print(f"league {words[0]} is `league {full}` now.", file=sys.stderr)
        return status
    except UsageError as error:
        return _fail(str(error), 2)
    except RuntimeError as error:
        from arena.errors import (
            EngineError,  # imported only after an error: they take a moment
            ServerError,
        )

        if not (isinstance(error, EngineError) and isinstance(error.__cause__, ServerError)):
            raise  # a bug in this program: show its traceback
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
        except OSError:  # standard output is full
            _discard_output()
        return _fail(f"{error.filename or 'Nothing more can be written'}: {error.strerror}.", 2)


_PLAIN = str.maketrans({"−": "-", "–": "-", "→": "->", "≤": "<=", "½": "1/2", "…": "...", "’": "'"})


def _open_streams() -> None:
    """Make standard output and error accept any text.

    If the parent process has closed them, output is discarded. Letters that a terminal's encoding lacks, as Latin-1
    lacks the minus sign, are replaced by plain ones: a result must not be lost because of a letter.
    """
    codecs.register_error("league", _in_plain_letters)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # until the process ends
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="league")


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of letters that cannot be encoded, and where to continue; ``?`` if there is none."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plainer = error.object[error.start : error.end].translate(_PLAIN)
    return "".join(letter if letter.isascii() else "?" for letter in plainer), error.end


def _flushed(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command and flush its output: at the end of the process it would be too late to report an error."""
    try:
        return command(argv)
    finally:
        sys.stdout.flush()


def _discard_output() -> None:
    """Discard the rest of standard output, so that it cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> int:
    """Print the error; return the exit status."""
    print(f"league: {plain(message)}", file=sys.stderr)
    return status


def _dispatch(argv: list[str]) -> int:
    """Parse and run a command; the report of one that has ``--json`` is printed as JSON or as text.

    Files of such a command are written after that, by its module's ``keep``, so that a disk that fills up meanwhile
    does not lose the report.
    """
    if "_ARGCOMPLETE" in os.environ:
        complete(_parsers(word for word in os.environ.get("COMP_LINE", "").split() if word in COMMANDS)[0])
    if not argv or argv in [[word] for word in BEHIND]:
        parser, commands = _parsers(())
        commands.get("".join(argv), parser).print_help()
        return 0
    arguments = parse(argv)
    load_plugins(arguments)
    module = find(arguments.command)
    if "json" not in arguments:
        return int(module.run(arguments) or 0)
    with contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext():
        report = module.run(arguments)
    try:
        _print_report(module, report, arguments.json)
    finally:  # also where the reader of the output, such as `head`, has closed it
        if hasattr(module, "keep"):
            module.keep(report)
    return int(module.status(report)) if hasattr(module, "status") else 0


def _print_report(module: Any, report: Any, as_json: bool) -> None:
    """Print a command's report as JSON or as text, and flush it."""
    if as_json:
        print(json.dumps(module.to_json(report), indent=2, allow_nan=False))
    else:
        from league.training.monitors.terminal import Terminal  # rich takes a moment to import

        module.print_report(report, Terminal(soft_wrap=True))
    sys.stdout.flush()


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Raises UsageError if no command accepts it."""
    words = _in_full(words)
    named = [word for word in words[: 2 if words[0] in BEHIND else 1] if not word.startswith("-")]
    parser, commands = _parsers(named[-1:])
    _check_options(words[len(named) :], commands[named[-1]] if named else parser)
    return parser.parse_args(words)


def _in_full(words: Sequence[str]) -> list[str]:
    """Return a command line with the word that its command follows, such as ``lab``."""
    return [*written(words[0]).split(), *words[1:]] if words[0] in COMMANDS else list(words)


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


def _parsers(named: Iterable[str] = COMMANDS) -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the whole command, and those of its commands by name.

    Only the ``named`` ones have their arguments, as these need an import of the command. Raises UsageError for an
    unknown command.
    """
    parser = _Front(
        prog="league",
        description="Train language models by self-play in text games, and measure how good they are.",
        epilog="start with:    league train pocket\n"
        "then:          league match runs/pocket random --game kuhn_poker\n"
        "how it works:  league show docs, and every command's --help",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    commands, behind = {}, {}
    for word, (sentence, _) in BEHIND.items():
        commands[word] = add_command(subparsers, word, sentence)
        behind[word] = commands[word].add_subparsers(
            dest="command", metavar="COMMAND", required=True, parser_class=Parser
        )
    for name, (_, sentence) in COMMANDS.items():
        place = behind[written(name).split()[0]] if written(name) != name else subparsers
        commands[name] = add_command(place, name, sentence)
    for name in named:
        if name in BEHIND:
            continue
        module = find(name)
        if name not in commands:  # a plugin's
            commands[name] = add_command(subparsers, name, sentence_of(module))
        fill(commands[name], module)
    return parser, commands


class _Front(Parser):
    """The parser of ``league`` alone, whose help is one screen."""

    def format_help(self) -> str:
        return f"usage: league COMMAND ...\n\n{self.description}\n\n{screen()}\n\n{self.epilog}\n"
