"""The ``league`` command. Heavy imports wait until a command needs them, so that help is instant."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from arena.errors import EngineError
from arena.remote.errors import ServerError
from games.common.errors import UsageError, unknown_name

PLAYERS = """\
a player is written as one of:
  random            draws every legal action with the same probability
  always:ACTION     one action at every turn, for example always:defect (games in which it is always legal)
  equilibrium       a solution of the game by CFR+ (small games in which one's gain is another's loss)
  mcts:SIMS         tree search with SIMS simulations a move (games without hidden information)
  RUN               the newest snapshot of a run: its folder, or its name under runs/
  RUN@SNAPSHOT      one snapshot of a run, for example runs/pocket@main-000120
  RUN@mixture       the run's whole population, one snapshot drawn for each match
  best_response:DIR     a player that `league exploit` trained and kept in DIR
  hf:PATH_OR_ID     a language model from a folder in Hugging Face layout, or from the hub
  openai:MODEL      a model of OpenAI's; the key is in the environment variable OPENAI_API_KEY
  openai:MODEL@URL  a model behind any server that speaks OpenAI's protocol, a vLLM server too
  openai:FILE.toml  the same with settings: prices, rate limits, which variable has the key (docs/engines.md)
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors as UsageErrors, which are printed like all others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the message and a pointer to the help."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}. See: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 if a server failed, 2 for a user's mistake, 130 after Ctrl-C."""
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except UsageError as error:
        print(f"league: {error}", file=sys.stderr)
        return 2
    except EngineError as error:
        if not isinstance(error.__cause__, ServerError):  # a bug in this program: show its traceback
            raise
        print(f"league: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"\n{stop or 'Stopped.'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _dispatch(argv: list[str]) -> int:
    """Parse and run a command; the report of one that has ``--json`` is printed as JSON or as text."""
    parser, commands = _parsers()
    if not argv:
        parser.print_help()
        return 0
    if not argv[0].startswith("-") and argv[0] not in commands:
        raise unknown_name("command", argv[0], commands)
    is_command = argv[0] in commands
    _check_options(argv[is_command:], commands[argv[0]] if is_command else parser)
    arguments = parser.parse_args(argv)
    module = importlib.import_module(f"league.commands.{arguments.command}")
    if "json" not in arguments:
        return int(module.run(arguments))
    with contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext():
        report = module.run(arguments)
    if arguments.json:
        print(json.dumps(module.to_json(report), indent=2, allow_nan=False))
    else:
        from rich.console import Console

        module.print_report(report, Console(highlight=False, soft_wrap=True))
    return 0


def _check_options(argv: Sequence[str], parser: Parser) -> None:
    """Raise UsageError for an option that does not exist: argparse reports it last, and suggests no other."""
    options = [option for action in parser._actions for option in action.option_strings]
    for argument in argv:
        option = argument.partition("=")[0]
        if option.startswith("--") and option not in [*options, "--"]:
            raise unknown_name(f"option of {parser.prog}", option, options)


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the whole command and those of its commands by name."""
    parser = Parser(
        prog="league",
        description="Train language-model players by self-play in text games, and see how good they are.",
        epilog="start with:  league train pocket\nthen:        league match runs/pocket random --game kuhn_poker",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for add in (
        _add_train,
        _add_evolve,
        _add_match,
        _add_tournament,
        _add_standings,
        _add_exploitability,
        _add_exploit,
        _add_regret,
        _add_games,
        _add_play,
        _add_board,
    ):
        add(subparsers)
    return parser, dict(subparsers.choices)


def _add_command(subparsers: Any, name: str, text: str, **settings: Any) -> Parser:
    return subparsers.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.", **settings)  # type: ignore[no-any-return]


def _add_json_option(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def _add_game_option(parser: Parser) -> None:
    parser.add_argument("--game", required=True, help='a game\'s name, such as kuhn_poker or "kuhn_poker(players=3)"')


def _add_train(subparsers: Any) -> None:
    parser = _add_command(subparsers, "train", "train a league by self-play, or resume a run")
    parser.add_argument("config", nargs="?", metavar="PRESET|FILE.toml", help="what to train (default: pocket)")
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept (default: a new folder under runs/)")
    parser.add_argument("--seed", type=int, metavar="N", help="every stream of randomness derives from it")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument("--resume", action="store_true", help="continue where an interrupted run stopped")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="play on a Ray cluster: HOST:PORT, auto (the one of this machine), or local (start one here)",
    )


def _add_evolve(subparsers: Any) -> None:
    parser = _add_command(subparsers, "evolve", "continue a run's population under new settings, in a new run")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--iterations", type=int, metavar="N", help="how many more (default: as many as RUN has done)")
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where the new run is kept (default: a new folder under runs/)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )


def _add_match(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "match", "play two players against each other, every deal in every seating", epilog=PLAYERS
    )
    parser.add_argument("players", nargs=2, metavar="PLAYER")
    _add_game_option(parser)
    parser.add_argument("--matches", type=int, default=400, metavar="N", help="at least this many (default: 400)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="fixes all deals and draws (default: 0)")
    parser.add_argument("--save", metavar="FILE", help="write every match to FILE, one JSON line each")
    _add_json_option(parser)


def _add_tournament(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "tournament", "play all players against each other, or resume a tournament", epilog=PLAYERS
    )
    parser.add_argument("players", nargs="*", metavar="PLAYER")
    parser.add_argument("--game", metavar="GAME", help="the name of a game for two players or more")
    parser.add_argument("--matches", type=int, metavar="N", help="at least this many for each pair (default: 400)")
    parser.add_argument("--seed", type=int, metavar="N", help="fixes all deals and draws (default: 0)")
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where the matches are kept (default: a new folder under tournaments/)"
    )
    parser.add_argument("--resume", action="store_true", help="continue the tournament in --run-dir")
    _add_json_option(parser)


def _add_standings(subparsers: Any) -> None:
    parser = _add_command(subparsers, "standings", "show the ranking of a run or a tournament, and how certain it is")
    parser.add_argument("run", metavar="RUN|DIR", help="a run, or the folder of a tournament")
    parser.add_argument("--game", metavar="GAME", help="only this game")
    parser.add_argument("--matrix", action="store_true", help="print the payoffs of the first players as a matrix")
    _add_json_option(parser)


def _add_exploitability(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "exploitability", "measure how much a best response gains against a player", epilog=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    _add_game_option(parser)
    _add_json_option(parser)


def _add_exploit(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "exploit", "train an exploiter of a player: a lower bound on its exploitability", epilog=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    _add_game_option(parser)
    parser.add_argument(
        "--steps", type=int, default=60_000, metavar="N", help="decisions to learn from (default: 60000)"
    )
    parser.add_argument("--matches", type=int, default=4_000, metavar="N", help="deals to measure by (default: 4000)")
    parser.add_argument("--seat", type=int, metavar="K", help="attack from this seat alone (default: from every seat)")
    parser.add_argument("--control", type=float, default=1.0, metavar="SHARE", help="of its turns that it controls")
    parser.add_argument(
        "--distance", type=float, default=1.0, metavar="D", help="most total variation from the reference"
    )
    parser.add_argument(
        "--reference", metavar="PLAYER", help="the policy that --control and --distance refer to (default: the player)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="fixes training and matches (default: 0)")
    parser.add_argument("--out", metavar="DIR", help="where it is kept (default: a new folder under exploiters/)")
    _add_json_option(parser)


def _add_regret(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "regret", "measure how much more a player would have earned by playing otherwise", epilog=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    parser.add_argument("opponent", metavar="OPPONENT")
    _add_game_option(parser)
    parser.add_argument("--matches", type=int, default=400, metavar="N", help="at least this many (default: 400)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="fixes all deals and draws (default: 0)")
    parser.add_argument(
        "--alternatives",
        nargs="+",
        default=[],
        metavar="PLAYER",
        help="players to compare with: regret over matches of a small game instead of over rounds of a repeated one",
    )
    _add_json_option(parser)


def _add_games(subparsers: Any) -> None:
    _add_json_option(_add_command(subparsers, "games", "list the games"))


def _add_play(subparsers: Any) -> None:
    parser = _add_command(subparsers, "play", "play one match against a player, at the terminal", epilog=PLAYERS)
    _add_game_option(parser)
    parser.add_argument("--against", required=True, metavar="PLAYER")
    parser.add_argument("--seat", type=int, default=0, metavar="K", help="your seat, counted from 0 (default: 0)")
    parser.add_argument("--seed", type=int, metavar="N", help="fixes the deal and the opponent's draws")


def _add_board(subparsers: Any) -> None:
    parser = _add_command(subparsers, "board", "show a run's curves in TensorBoard")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--port", type=int, default=6006, metavar="N", help="0 takes any free port (default: 6006)")


if __name__ == "__main__":
    sys.exit(main())
