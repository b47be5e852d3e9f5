"""``league lab adapt``: how quickly does a player fall in with a stranger, within a match, or by updates against it?"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.errors import UsageError
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
    from rich.table import Table

    from arena.records import Episode
    from arena.remote.usage import Usage
    from games.spec import GameSpec
    from league.lab.comparisons.adaptation import Adaptation, AdaptationMatches
    from league.lab.comparisons.further_training import Further, Trainee
    from league.population.players.engines import Engines
    from league.population.players.player import Player

EXAMPLES = (
    'scripted:bayes --to scripted:good --game "signalling(rounds=9,form=1)"',
    'runs/pocket --to runs/other --game "signalling(rounds=9,form=1)" --beside scripted:bayes --json',
    "runs/pocket --to runs/other --game tiny_hanabi --updates 0 1 2 4 8",
)
NOTES = PLAYERS


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("player", metavar="PLAYER")
    parser.add_argument("--to", required=True, metavar="STRANGER", help="whom it meets: a player of another run, say")
    add_game_option(parser)
    parser.add_argument(
        "--rounds",
        nargs="+",
        type=SEED,
        metavar="N",
        help="turns of its own before (default: 0 1 2 4 8; with --updates: 0)",
    )
    parser.add_argument(
        "--updates",
        nargs="*",
        type=SEED,
        metavar="N",
        help="also train it on against the stranger, and measure it after as many updates (if none: 0 1 2 4 8); "
        "a run with exact credit, such as pocket, learns from returns there",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --updates: change a setting of that training; may be given several times",
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
    """Play every player's matches with the stranger, on the same deals; with ``--updates`` after updates, too."""
    from arena.remote.usage import usage_of_both
    from games.registry import make_game
    from league.lab.comparisons.adaptation import ROUNDS, AdaptationMatches, adaptation
    from league.lab.comparisons.further_training import UPDATES, Further, learner_of

    spec, updated = make_game(arguments.game).spec, arguments.updates is not None
    if arguments.set and not updated:
        raise UsageError("--set changes how the player is trained further. Give --updates with it, or leave it out.")
    how = Further(sorted(set(arguments.updates or UPDATES)), arguments.seed, arguments.set)
    rounds = arguments.rounds or ((0,) if updated else ROUNDS)
    names = list(dict.fromkeys([arguments.player, *arguments.beside]))
    known = {arguments.player: not updated or 0 in how.updates}  # before any update
    rows: list[Adaptation] = []
    with _playing(arguments, names, arguments.matches * len(names)) as (engines, stranger, players, on_match):
        learner = learner_of(arguments.player, spec) if updated else None
        measure = AdaptationMatches(rounds, arguments.matches, arguments.seed, updated, on_match)
        for player in players:
            rows += adaptation(player, stranger, measure) if known.get(player.label, True) else []
        usage = engines.usage()
    if learner is not None and max(how.updates):
        later, its_usage = _after_updates(arguments, learner, how, measure)
        own = [row for row in rows if row.player == arguments.player]
        rows, usage = [*own, *later, *(row for row in rows if row not in own)], usage_of_both(usage, its_usage)
    return AdaptReport(spec, stranger.label, arguments.matches, arguments.seed, rows, usage)


@contextmanager
def _playing(
    arguments: argparse.Namespace, names: Sequence[str], matches: int
) -> Iterator[tuple[Engines, Player, list[Player], Callable[[Episode], None]]]:
    """Yield engines, the stranger, the players of these names, and what counts matches on a progress bar."""
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings

    spec = make_game(arguments.game).spec
    with Engines(PlayerSettings.of(arguments)) as engines:
        stranger, *players = (resolve(text, spec, engines) for text in (arguments.to, *names))
        engines.check_settings([arguments.to, *names])
        with match_progress() as progress:
            task = progress.add_task(f"playing {spec.alias}", total=matches)
            yield engines, stranger, players, lambda _: progress.advance(task)


def _after_updates(
    arguments: argparse.Namespace, learner: Trainee, how: Further, measure: AdaptationMatches
) -> tuple[list[Adaptation], dict[str, Usage]]:
    """Train the player further in a temporary folder; return what it then earns, and the usage of servers."""
    from arena.remote.usage import usage_of_both
    from games.registry import make_game
    from league.lab.comparisons.further_training import after_updates, train_further

    numbers = [number for number in how.updates if number]
    rows: list[Adaptation] = []
    with TemporaryDirectory(prefix="league-adapt-") as folder:
        trained = train_further(learner, arguments.to, make_game(arguments.game).spec, how, Path(folder))
        matches = arguments.matches * len(numbers)
        with _playing(arguments, [arguments.player], matches) as (engines, stranger, [player], on_match):
            for number in numbers:
                its = measure._replace(on_match=on_match)
                rows += after_updates(trained, number, player, stranger, engines, its)
            return rows, usage_of_both(trained.usage, engines.usage())


def to_json(report: AdaptReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    return {
        "game": report.spec.name,
        "stranger": report.stranger,
        "matches": report.matches,
        "seed": report.seed,
        "rows": [
            {
                "player": row.player,
                "updates": row.updates,
                "rounds": row.rounds,
                "turns": row.turns,
                **estimate_to_json("earned", row.earned),
            }
            for row in report.rows
        ],
        "usage": {player: usage._asdict() for player, usage in report.usage.items()},
    }


def print_report(report: AdaptReport, console: Console) -> None:
    """Print what a turn earns after so many turns with the stranger, a column for each player; or after updates."""
    updated = any(row.rounds is None for row in report.rows)
    what = f"{report.stranger} in {report.spec.alias}" + " after updates against it" * updated
    console.print(f"What a turn earns with {what}", style="bold", markup=False)
    console.print(
        f"{report.matches} matches or more of each player, on the same deals, in every seating (seed {report.seed}). "
        "Intervals are of 95 %.",
        markup=False,
    )
    console.print(_by_updates(report) if updated else _by_turns(report))
    print_usage(report.usage, console)


def _by_turns(report: AdaptReport) -> Table:
    players = list(dict.fromkeys(row.player for row in report.rows))
    table = plain_table("after turns", *players)
    for rounds in dict.fromkeys(row.rounds for row in report.rows):
        table.add_row(str(rounds), *(_cell(row) for row in report.rows if row.rounds == rounds))
    return table


def _by_updates(report: AdaptReport) -> Table:
    columns = list(dict.fromkeys(row.rounds for row in report.rows))
    words = ("a whole match" if turns is None else f"the turn after {turns}" for turns in columns)
    table = plain_table("player", "updates", *words)
    for player, updates in dict.fromkeys((row.player, row.updates) for row in report.rows):
        its = {row.rounds: row for row in report.rows if (row.player, row.updates) == (player, updates)}
        table.add_row(player, str(updates), *(_cell(its[rounds]) for rounds in columns))
    return table


def _cell(row: Adaptation) -> str:
    low, high = format_number(row.earned.low), format_number(row.earned.high)
    return f"{format_number(row.earned.mean)} ({low} to {high})"
