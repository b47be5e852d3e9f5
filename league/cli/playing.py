"""The parsers of the commands that play matches."""

from __future__ import annotations

from typing import Any

from league.cli.parser import COUNT, PLAYERS, SEED, add_command, add_game_option, add_json_option, add_player_options


def _add_match(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "match", "play two players against each other, every deal in every seating", notes=PLAYERS
    )
    parser.add_argument("players", nargs=2, metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument("--matches", type=COUNT, default=400, metavar="N", help="at least this many (default: 400)")
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help="fixes all deals and draws (default: 0)")
    parser.add_argument("--save", metavar="FILE", help="write every match to FILE, one JSON line each")
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


PLAYING = {"match": _add_match, "tournament": _add_tournament, "play": _add_play}
