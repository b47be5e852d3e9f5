"""The parts that the parsers of all commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from games.common.errors import UsageError
from games.common.limits import LARGEST_COUNT, LARGEST_SEED, MOST_THREADS

PLAYERS = """\
a player is written as one of:
  random            draws every legal action with the same probability
  always:ACTION     one action at every turn, for example always:defect (games in which it is always legal)
  equilibrium       a solution of the game by CFR+ (small games in which one's gain is another's loss)
  minimax           best play by backward induction (small games without chance or hidden information)
  mcts:SIMS         tree search with SIMS simulations a move (games without hidden information)
  scripted:NAME     a scripted player that a game brings, for example scripted:optimal in lookup
  RUN               the newest snapshot of a run: its folder, or its name under runs/
  RUN@SNAPSHOT      one snapshot of a run, for example runs/pocket@main-000120
  RUN@mixture       the run's whole population, one snapshot drawn for each match
  RUN@distilled     one model that plays as the mixture does on average (distil_every)
  best_response:DIR     a player that `league lab exploit` trained and kept in DIR
  bayes:PLAYER,PLAYER   the best response to its belief about which of these it is playing (small games of two seats)
  hf:NAME           a pretrained language model of `league models`, a folder in Hugging Face layout, a .gguf file,
                    or a model of the hub
  openai:MODEL      a model of OpenAI's; the key is in the environment variable OPENAI_API_KEY
  openai:MODEL@URL  a model behind any server that speaks OpenAI's protocol, such as vLLM
  openai:FILE.toml  the same with settings: prices, rate limits, the key's variable (league show docs engines)
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors as UsageErrors, which are printed like all others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the message and a pointer to the help."""
        number = re.fullmatch(r"argument (\S+): (.*: it should be .*)", message, re.DOTALL)  # of ``whole_number``
        message = f"{number[1]} {number[2]}" if number else message
        raise UsageError(f"{message[:1].upper()}{message[1:]}. See: {self.prog} --help")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return the type of an option that takes whole numbers of this range, both ends included."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            given = text if re.fullmatch(r"-?\d+", text) else repr(text)
            raise argparse.ArgumentTypeError(f"{given[:40]}: it should be a whole number from {least} to {most:,}")
        return number

    return parse


COUNT = whole_number(1, LARGEST_COUNT)
SEED = whole_number(0, LARGEST_SEED)
THREADS = whole_number(1, MOST_THREADS)


def add_command(subparsers: Any, name: str, sentence: str) -> Parser:
    """Add a command with its line of help; ``fill`` adds its arguments. Return its parser."""
    parser: Parser = subparsers.add_parser(name, help=sentence, description=f"{sentence[:1].upper()}{sentence[1:]}.")
    return parser


def fill(parser: Parser, command: Any) -> None:
    """Add a command's arguments, and end its help with its examples and notes."""
    examples = [f"  {parser.prog}{f' {words}' if words else ''}\n" for words in getattr(command, "EXAMPLES", ())]
    parts = [f"examples:\n{''.join(examples)}" if examples else "", getattr(command, "NOTES", "")]
    parser.epilog = "\n".join(part for part in parts if part)
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module with games, players or rules to load first; this runs its code; may be given several times",
    )
    command.add_arguments(parser)


def add_json_option(parser: Parser) -> None:
    """Add ``--json``: the command's module has ``to_json`` and ``print_report``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_seed_option(parser: Parser, fixes: str = "all deals and draws") -> None:
    """Add ``--seed``, which is 0 if it is not given."""
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help=f"fixes {fixes} (default: 0)")


def add_player_options(parser: Parser) -> None:
    """Add the settings of language models (``league.population.players.settings``)."""
    group = parser.add_argument_group(
        "settings of the language models that play (default: as their runs and cards say)"
    )
    group.add_argument("--reply", choices=["choice", "free"], help="one of the legal replies, or free text")
    group.add_argument("--max-reply-tokens", type=int, metavar="N", help="longest free reply")
    group.add_argument("--temperature", type=float, metavar="T", help="sampling temperature")
    group.add_argument("--top-k", type=int, metavar="K", help="free replies: only the K most likely tokens")
    group.add_argument("--top-p", type=float, metavar="P", help="free replies: the likeliest tokens that sum to P")
    group.add_argument(
        "--min-p", type=float, metavar="P", help="free replies: only tokens at least P times as likely as the likeliest"
    )
    group.add_argument("--dtype", choices=["float32", "bfloat16"], help="type of the weights")
    group.add_argument("--engine", metavar="KIND", help="torch or vllm, regardless of the run's own engine")
    group.add_argument("--threads", type=THREADS, metavar="N", help="threads of the engine (default: PyTorch's)")
    group.add_argument(
        "--demonstrations",
        type=int,
        metavar="N",
        help="turns of legal play shown first (default: 1 for free replies of hf: players)",
    )
    group.add_argument(
        "--no-notes",
        dest="stores",
        action="store_const",
        const=False,
        help="play without the notes that runs' players keep from match to match",
    )


def add_sampling_options(parser: Parser) -> None:
    """Add options for players whose probabilities are unknown: how often to ask at a state, and where to keep
    answers.
    """
    parser.add_argument(
        "--replies",
        type=COUNT,
        metavar="N",
        help="replies sampled at each information state where probabilities are unknown (default: 1024; from an "
        "endpoint 64)",
    )
    parser.add_argument(
        "--answers", metavar="FILE", help="keep endpoints' answers in this file, and do not ask for those already there"
    )


def add_until_options(parser: Parser, most: str) -> None:
    """Add options for matches until they are decided; ``most`` says how many are played at most by default."""
    parser.add_argument(
        "--until", type=float, metavar="C", help="stop once it is decided with confidence C, such as 0.95"
    )
    parser.add_argument(
        "--margin", type=float, metavar="M", help="with --until: being level within M, such as 0.02, also decides"
    )
    parser.add_argument(
        "--at-most", type=COUNT, metavar="N", help=f"with --until: most matches to play (default: {most})"
    )


def add_game_option(parser: Parser) -> None:
    """Add ``--game``, which is required."""
    parser.add_argument("--game", required=True, help='a game\'s name, such as kuhn_poker or "kuhn_poker(players=3)"')


def add_allow_host(parser: Parser) -> None:
    """Add a server's option for the names that clients may call its machine."""
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further host name by which clients may reach this machine; may be given several times",
    )


def add_teaching_options(parser: Parser, setting: str) -> None:
    """Add the folder and seed of a taught model, and settings for this command only, such as ``setting``."""
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="where to keep the model, as a run")
    parser.add_argument("--seed", type=SEED, metavar="N", help="seed of all draws (default: the run's)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"change a setting for this command, such as {setting}; may be given several times",
    )
    add_json_option(parser)
