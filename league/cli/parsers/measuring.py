"""The parsers of the commands that measure players."""

from __future__ import annotations

from typing import Any

from league.cli.parser import (
    COUNT,
    PLAYERS,
    add_command,
    add_game_option,
    add_json_option,
    add_player_options,
    add_seed_option,
    whole_number,
)

MOST_DEALS = 1_000_000  # of a team's line-up, whose returns are held in memory


def _add_exploit(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "exploit", "train an exploiter of a player: a lower bound on its exploitability", notes=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument(
        "--steps", type=COUNT, default=60_000, metavar="N", help="decisions to learn from (default: 60000)"
    )
    parser.add_argument("--matches", type=COUNT, default=4_000, metavar="N", help="deals to measure by (default: 4000)")
    parser.add_argument("--seat", type=int, metavar="K", help="attack from this seat alone (default: from every seat)")
    parser.add_argument("--control", type=float, default=1.0, metavar="SHARE", help="of its turns that it controls")
    parser.add_argument(
        "--distance", type=float, default=1.0, metavar="D", help="most total variation from the reference"
    )
    parser.add_argument(
        "--reference", metavar="PLAYER", help="the policy that --control and --distance refer to (default: the player)"
    )
    add_seed_option(parser, "training and matches")
    parser.add_argument("--out", metavar="DIR", help="where it is kept (default: a new folder under exploiters/)")
    add_player_options(parser)
    add_json_option(parser)


def _add_redteam(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "redteam", "measure what an attacker wins from a player, by what he may do", notes=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument(
        "--attack",
        choices=["distance", "control", "partner", "observations", "words", "memory"],
        default="distance",
        help="how far he may leave his reference, which turns are his, to win or to do harm, what the player is shown, "
        "told, or finds in its own notes (default: distance)",
    )
    parser.add_argument(
        "--budget",
        type=float,
        nargs="+",
        metavar="B",
        help="shares from 0 to 1, or numbers of edits or texts to try (default: several that suit the attack)",
    )
    parser.add_argument(
        "--reference", metavar="PLAYER", help="how the attacker plays within a budget of 0 (default: the player)"
    )
    parser.add_argument("--unquoted", action="store_true", help="words stand as they are, not as what another says")
    parser.add_argument(
        "--steps",
        type=COUNT,
        default=60_000,
        metavar="N",
        help="decisions of each exploiter, where the game is too large to be counted out (default: 60000)",
    )
    parser.add_argument(
        "--matches", type=COUNT, default=4_000, metavar="N", help="deals to measure these by (default: 4000)"
    )
    add_seed_option(parser, "the search and training")
    parser.add_argument("-o", "--output", metavar="FILE", help="draw the curve: a .png or .svg file")
    add_player_options(parser)
    add_json_option(parser)


def _add_exploitability(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "exploitability", "measure how much a best response gains against a player", notes=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    add_game_option(parser)
    add_player_options(parser)
    add_json_option(parser)


def _add_credit(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "credit", "compare credit rules on the same matches beside the exact gradient", notes=PLAYERS
    )
    parser.add_argument("target", metavar="RUN|GAME", help="a run, RUN@SNAPSHOT, or a game, played uniformly")
    parser.add_argument("--game", metavar="GAME", help="which of a run's games; with it any PLAYER may be named")
    parser.add_argument(
        "--rules",
        nargs="+",
        default=[],
        metavar="RULE",
        help="only these, as NAME, NAME:KEY=VALUE or NAME@ESTIMATOR (default: all)",
    )
    parser.add_argument("--batch", type=COUNT, default=512, metavar="N", help="matches of a batch (default: 512)")
    parser.add_argument(
        "--learned",
        type=COUNT,
        default=4096,
        metavar="N",
        help="matches that estimators of turn values learn from first (default: 4096)",
    )
    parser.add_argument(
        "--batches",
        type=COUNT,
        metavar="N",
        help="independent batches (default: 16, or 2 of a game too large to count)",
    )
    parser.add_argument(
        "--group", type=COUNT, metavar="N", help="matches of each start (default: the run's, or 8 where it has one)"
    )
    add_seed_option(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="draw a picture: a .png or .svg file")
    add_player_options(parser)
    add_json_option(parser)


def _add_rescore(subparsers: Any) -> None:
    parser = add_command(subparsers, "rescore", "credit stored matches anew, by another rule or price, without playing")
    parser.add_argument(
        "matches",
        metavar="RUN|FILE|DIR",
        help="a run's kept matches, or those of league export, match --save or import",
    )
    parser.add_argument("--like", metavar="RUN", help="whose roles and [credit] apply (default: the run's own)")
    parser.add_argument("--rule", metavar="RULE", help="for every role, as NAME or NAME:KEY=VALUE (default: the run's)")
    parser.add_argument(
        "--price", metavar="X", help="what a forfeit costs, in the game's units; all: all it can (default: as played)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the matches with this credit, as league export does"
    )
    add_json_option(parser)


def _add_regret(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "regret", "measure how much more a player would have earned by playing otherwise", notes=PLAYERS
    )
    parser.add_argument("player", metavar="PLAYER")
    parser.add_argument("opponent", metavar="OPPONENT")
    add_game_option(parser)
    parser.add_argument("--matches", type=COUNT, default=400, metavar="N", help="at least this many (default: 400)")
    add_seed_option(parser)
    parser.add_argument(
        "--alternatives",
        nargs="+",
        default=[],
        metavar="PLAYER",
        help="players to compare with: regret over matches of a small game instead of over rounds of a repeated one",
    )
    add_player_options(parser)
    add_json_option(parser)


def _add_team(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "team", "see whether a run's team earns its keep, and which of its roles does", notes=PLAYERS
    )
    parser.add_argument("run", metavar="RUN", help="a run with a game whose roles work together")
    parser.add_argument("--game", metavar="GAME", help="which of its games, where several are played by teams")
    parser.add_argument(
        "--stand-in",
        nargs="+",
        default=["random"],
        metavar="PLAYER",
        help="who takes each role's place, beside its untrained self (default: random)",
    )
    parser.add_argument(
        "--alone",
        metavar="PLAYER",
        help="who does the whole work alone, where there is a game for that; of a run, the snapshot at equal tokens",
    )
    parser.add_argument(
        "--apart",
        nargs="+",
        default=[],
        metavar="[ROLE=]PLAYER",
        help="who was trained apart from the team and takes this role, or all others, together",
    )
    deals = whole_number(1, MOST_DEALS)
    parser.add_argument("--matches", type=deals, default=2000, metavar="N", help="of each line-up (default: 2000)")
    parser.add_argument(
        "--margin",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="of the range of returns, below which a difference does not matter (default: 0.05)",
    )
    add_seed_option(parser)
    add_player_options(parser)
    add_json_option(parser)


def _add_opponents(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "opponents",
        "measure what a player can know of whom it plays with, and what play by that belief is worth",
        notes=PLAYERS,
    )
    parser.add_argument("player", metavar="PLAYER")
    add_game_option(parser)
    parser.add_argument(
        "--against", nargs="+", required=True, metavar="PLAYER", help="whom it is to tell apart, two or more"
    )
    parser.add_argument(
        "--matches", type=COUNT, default=600, metavar="N", help="beside each of them, at least (default: 600)"
    )
    add_seed_option(parser)
    add_player_options(parser)
    add_json_option(parser)


def _add_standings(subparsers: Any) -> None:
    parser = add_command(subparsers, "standings", "show the ranking of a run or a tournament, and how certain it is")
    parser.add_argument("run", metavar="RUN|DIR", help="a run, or the folder of a tournament")
    parser.add_argument("--game", metavar="GAME", help="only this game")
    parser.add_argument("--matrix", action="store_true", help="print the payoffs of the first players as a matrix")
    add_json_option(parser)


MEASURING = {
    "standings": _add_standings,
    "exploitability": _add_exploitability,
    "exploit": _add_exploit,
    "redteam": _add_redteam,
    "credit": _add_credit,
    "rescore": _add_rescore,
    "regret": _add_regret,
    "team": _add_team,
    "opponents": _add_opponents,
}
