"""``league show completion SHELL``: a script for a shell: it completes commands, options, presets and runs."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from games.common.errors import UsageError
from league.cli.parser import Parser

EXAMPLES = ("bash >> ~/.bashrc", "zsh >> ~/.zshrc", "fish > ~/.config/fish/completions/league.fish")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    shells = ["bash", "zsh", "fish", "tcsh", "powershell"]
    parser.add_argument("shell", choices=shells, metavar="SHELL", help=f"one of {', '.join(shells)}")


def run(arguments: argparse.Namespace) -> int:
    """Print the script for a shell. Raises UsageError where argcomplete is not installed."""
    if find_spec("argcomplete") is None:
        raise UsageError("league show completion needs argcomplete, which is not installed: pip install argcomplete")
    import argcomplete

    sys.stdout.write(argcomplete.shellcode(["league"], shell=arguments.shell))
    return 0
