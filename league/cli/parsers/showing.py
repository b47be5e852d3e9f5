"""The parsers of the commands that show what is there."""

from __future__ import annotations

from typing import Any

from league.cli.parser import add_command, add_json_option, whole_number

FORMATS = """\
formats:
  jsonl    whole matches, a line each, which `league import` reads without loss (default)
  trl      a line for each reply: prompt and completion as TRL has them, log-probs, advantage, reward, token ids
  openai   a line for each reply: a chat of OpenAI's format for fine-tuning
  parquet  the columns of trl in a Parquet file; needs pyarrow
"""


def _add_board(subparsers: Any) -> None:
    parser = add_command(subparsers, "board", "show runs in TensorBoard")
    parser.add_argument("runs", metavar="RUN|SWEEP", nargs="+", help="runs, or folders of `league sweep`")
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


def _add_presets(subparsers: Any) -> None:
    add_json_option(add_command(subparsers, "presets", "list the presets, and what each of them trains"))


def _add_settings(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "settings", "list the settings of a run: what they take, their defaults, what they mean"
    )
    parser.add_argument("word", nargs="?", metavar="WORD", help="only settings with this in their names or meanings")
    add_json_option(parser)


def _add_plugins(subparsers: Any) -> None:
    add_json_option(add_command(subparsers, "plugins", "list what plugins add: games, rules, players, engines"))


def _add_doctor(subparsers: Any) -> None:
    add_json_option(add_command(subparsers, "doctor", "look at this machine: what is wrong, and what to type"))


def _add_docs(subparsers: Any) -> None:
    parser = add_command(subparsers, "docs", "list the pages of the documentation, or print one")
    parser.add_argument("page", nargs="?", metavar="PAGE", help="the page to print, such as credit")


def _add_completion(subparsers: Any) -> None:
    parser = add_command(subparsers, "completion", "print a script that completes commands and options in your shell")
    shells = ["bash", "zsh", "fish", "tcsh", "powershell"]
    parser.add_argument("shell", choices=shells, metavar="SHELL", help=f"one of {', '.join(shells)}")


def _add_export(subparsers: Any) -> None:
    parser = add_command(subparsers, "export", "write a run's kept matches for other tools", notes=FORMATS)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--format", choices=["jsonl", "trl", "openai", "parquet"], default="jsonl", metavar="FORMAT")
    parser.add_argument("--all-seats", action="store_true", help="replies of seats that do not learn, too")
    parser.add_argument("-o", "--output", metavar="FILE", help="where it is written (default: named after the run)")


def _add_import(subparsers: Any) -> None:
    parser = add_command(subparsers, "import", "read whole matches that `league export` wrote")
    parser.add_argument("source", metavar="FILE", help="a file of `league export --format jsonl`")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="where the matches are written")


SHOWING = {
    "games": _add_games,
    "presets": _add_presets,
    "settings": _add_settings,
    "plugins": _add_plugins,
    "doctor": _add_doctor,
    "docs": _add_docs,
    "completion": _add_completion,
    "board": _add_board,
    "replay": _add_replay,
    "export": _add_export,
    "import": _add_import,
    "report": _add_report,
}
