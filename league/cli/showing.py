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
    parser = add_command(subparsers, "games", "list the games, or show one: league games show GAME")
    parser.add_argument("show", nargs="?", choices=["show"], help="show one game: what seats are told, a sample match")
    parser.add_argument("game", metavar="GAME", nargs="?", help="the game to show")
    add_json_option(parser)


def _add_replay(subparsers: Any) -> None:
    parser = add_command(subparsers, "replay", "show a match step by step")
    parser.add_argument("source", metavar="RUN|FILE", help="a run, or a file that `league match --save` wrote")
    parser.add_argument("--match", type=int, metavar="N", help="which match (default: the newest surprising one)")
    parser.add_argument("--list", action="store_true", help="list the matches that there are")
    parser.add_argument("--html", action="store_true", help="write one HTML page that steps with the arrow keys")
    parser.add_argument("-o", "--output", metavar="FILE", help="where --html writes it")


def _add_report(subparsers: Any) -> None:
    parser = add_command(subparsers, "report", "write one HTML page on a run, or on several beside each other")
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where the page is written")


SHOWING = {"games": _add_games, "board": _add_board, "replay": _add_replay, "report": _add_report}
