"""The parsers of the commands that show what is there."""

from __future__ import annotations

from typing import Any

from league.cli.parser import add_command, add_json_option, whole_number


def _add_board(subparsers: Any) -> None:
    parser = add_command(subparsers, "board", "show runs in TensorBoard")
    parser.add_argument("runs", metavar="RUN", nargs="+")
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), default=6006, metavar="N", help="0 takes any free port (default: 6006)"
    )


def _add_games(subparsers: Any) -> None:
    add_json_option(add_command(subparsers, "games", "list the games"))


SHOWING = {"games": _add_games, "board": _add_board}
