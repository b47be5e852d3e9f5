"""``league lab adapt``: how quickly does a player fall in with a stranger, from what it has seen of it in the match?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from league.cli.formatting import estimate_to_json, format_number, match_progress, plain_table, print_usage
from league.cli.parser import (
    COUNT,
    PLAYERS,
    SEED,
    Parser,
    add_game_option,
    add_json_option,
    add_player_options,
    add_seed_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from arena.remote.usage import Usage
    from games.spec import GameSpec
    from league.lab.comparisons.adaptation import Adaptation

EXAMPLES = (
    'scripted:bayes --to scripted:good --game "signalling(rounds=9,form=1)"',
    'runs/pocket --to runs/other --game "signalling(rounds=9,form=1)" --beside scripted:bayes --json',
)
NOTES = PLAYERS


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("player", metavar="PLAYER")
    parser.add_argument("--to", required=True, metavar="STRANGER", help="whom it meets: a player of another run, say")
    add_game_option(parser)
    parser.add_argument(
        "--rounds", nargs="+", type=SEED, metavar="N", help="turns of its own before (default: 0 1 2 4 8)"
    )
    parser.add_argument("--beside", nargs="+", default=[], metavar="PLAYER", help="others to measure on the same deals")
    parser.add_argument(
        "--matches", type=COUNT, default=600, metavar="N", help="of each player, at least (default: 600)"
    )
    add_seed_option(parser)
    add_player_options(parser)
    add_json_option(parser)


class AdaptReport(NamedTuple):
    """What players earn with a stranger, by turns before."""

    spec: GameSpec
    stranger: str
    matches: int  # of each player, at least
    seed: int
    rows: list[Adaptation]
    usage: dict[str, Usage]


def run(arguments: argparse.Namespace) -> AdaptReport:
    """Play every player's matches with the stranger, on the same deals."""
    from games.registry import make_game
    from league.lab.comparisons.adaptation import ROUNDS, adaptation
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings

    spec, names = make_game(arguments.game).spec, list(dict.fromkeys([arguments.player, *arguments.beside]))
    rows: list[Adaptation] = []
    with Engines(PlayerSettings.of(arguments)) as engines:
        stranger, *players = (resolve(text, spec, engines) for text in (arguments.to, *names))
        engines.check_settings([arguments.to, *names])
        with match_progress() as progress:
            task = progress.add_task(f"playing {spec.alias}", total=arguments.matches * len(players))
            for player in players:
                rows += adaptation(
                    player,
                    stranger,
                    arguments.rounds or ROUNDS,
                    arguments.matches,
                    arguments.seed,
                    lambda _: progress.advance(task),
                )
        return AdaptReport(spec, stranger.label, arguments.matches, arguments.seed, rows, engines.usage())


def to_json(report: AdaptReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    return {
        "game": report.spec.name,
        "stranger": report.stranger,
        "matches": report.matches,
        "seed": report.seed,
        "rows": [
            {"player": row.player, "rounds": row.rounds, "turns": row.turns, **estimate_to_json("earned", row.earned)}
            for row in report.rows
        ],
        "usage": {player: usage._asdict() for player, usage in report.usage.items()},
    }


def print_report(report: AdaptReport, console: Console) -> None:
    """Print what a turn earns after so many turns with the stranger, a column for each player."""
    players = list(dict.fromkeys(row.player for row in report.rows))
    console.print(f"What a turn earns with {report.stranger} in {report.spec.alias}", style="bold", markup=False)
    console.print(
        f"{report.matches} matches or more of each player, on the same deals, in every seating (seed {report.seed}). "
        "Intervals are of 95 %.",
        markup=False,
    )
    table = plain_table("after turns", *players)
    for rounds in dict.fromkeys(row.rounds for row in report.rows):
        table.add_row(str(rounds), *(_cell(row) for row in report.rows if row.rounds == rounds))
    console.print(table)
    print_usage(report.usage, console)


def _cell(row: Adaptation) -> str:
    low, high = format_number(row.earned.low), format_number(row.earned.high)
    return f"{format_number(row.earned.mean)} ({low} to {high})"
