"""The parsers of the commands that play matches."""

from __future__ import annotations

from typing import Any

from league.cli.parser import (
    COUNT,
    PLAYERS,
    SEED,
    add_allow_host,
    add_command,
    add_game_option,
    add_json_option,
    add_player_options,
    add_seed_option,
    whole_number,
)


def _add_match(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "match", "play two players against each other, every deal in every seating", notes=PLAYERS
    )
    parser.add_argument("players", nargs=2, metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument("--matches", type=COUNT, metavar="N", help="at least this many (default: 400)")
    parser.add_argument("--until", type=float, metavar="C", help="stop when it is decided, with confidence C, as 0.95")
    parser.add_argument("--margin", type=float, metavar="M", help="with --until: level within M, as 0.02, decides too")
    parser.add_argument("--at-most", type=COUNT, metavar="N", help="with --until: matches at most (default: 20000)")
    parser.add_argument("--seatings", type=COUNT, metavar="N", help="of each deal only the first N (default: all)")
    add_seed_option(parser)
    parser.add_argument("--save", metavar="FILE", help="write every match to FILE, one JSON line each")
    parser.add_argument("--transcripts", type=COUNT, metavar="N", help="show so many matches (default: 1)")
    parser.add_argument(
        "--beliefs", action="store_true", help="ask the seats the probes of the game's card; nothing played changes"
    )
    add_player_options(parser)
    add_json_option(parser)


def _add_play(subparsers: Any) -> None:
    parser = add_command(subparsers, "play", "play one match against a player, at the terminal", notes=PLAYERS)
    add_game_option(parser)
    parser.add_argument("--against", required=True, metavar="PLAYER")
    parser.add_argument("--seat", type=int, default=0, metavar="K", help="your seat, counted from 0 (default: 0)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes the deal and the opponent's draws")
    add_player_options(parser)


def _add_tournament(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "tournament", "play all players against each other, or resume a tournament", notes=PLAYERS
    )
    parser.add_argument("players", nargs="*", metavar="PLAYER")
    parser.add_argument("--game", metavar="GAME", help="the name of a game for two players or more")
    parser.add_argument("--matches", type=COUNT, metavar="N", help="at least this many for each pair (default: 400)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes all deals and draws (default: 0)")
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where the matches are kept (default: a new folder under tournaments/)"
    )
    parser.add_argument("--resume", action="store_true", help="continue the tournament in --run-dir")
    add_player_options(parser)
    add_json_option(parser)


def _add_eval(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "eval", "evaluate a player by a suite of games, or compare two players by it", notes=PLAYERS
    )
    parser.add_argument("players", nargs="+", metavar="PLAYER", help="one player, or two to be compared")
    parser.add_argument("--suite", required=True, metavar="S", help="spiral, dilemmas, …, or a .toml file of your own")
    parser.add_argument("--against", nargs="+", metavar="PLAYER", help="opponents (default: the suite's)")
    parser.add_argument(
        "--matches", type=COUNT, metavar="N", help="at least this many a pairing (default: the suite's)"
    )
    parser.add_argument("--until", type=float, metavar="C", help="stop when it is decided, with confidence C, as 0.95")
    parser.add_argument("--margin", type=float, metavar="M", help="with --until: level within M, as 0.02, decides too")
    parser.add_argument(
        "--at-most", type=COUNT, metavar="N", help="with --until: matches at most (default: the suite's)"
    )
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes all deals and draws (default: the suite's)")
    parser.add_argument("--run-dir", metavar="DIR", help="where it is kept (default: its own under evaluations/)")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be played")
    add_player_options(parser)
    add_json_option(parser)


def _add_serve(subparsers: Any) -> None:
    parser = add_command(subparsers, "serve", "serve a snapshot behind OpenAI's chat-completions API, until Ctrl-C")
    parser.add_argument("snapshot", metavar="RUN@SNAPSHOT", help="a run's newest snapshot, or the one that is named")
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), default=8000, metavar="N", help="0 takes any free port (default: 8000)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where it listens; 0.0.0.0: to everybody on the network, without a key (default: 127.0.0.1)",
    )
    add_allow_host(parser)
    parser.add_argument("--player", metavar="FILE.toml", help="write the settings of a player openai:FILE.toml")
    parser.add_argument(
        "--engine", metavar="KIND", help="torch or vllm's own server (default: the latter, where it and a GPU are)"
    )
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="type of the weights (default: the run's)")
    parser.add_argument("--threads", type=COUNT, metavar="N", help="threads of torch (default: torch's)")


PLAYING = {
    "match": _add_match,
    "eval": _add_eval,
    "tournament": _add_tournament,
    "play": _add_play,
    "serve": _add_serve,
}
