"""``league lab rescore``: new credit for stored matches, without playing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.destinations import file_to_write
from games.common.errors import UsageError
from games.common.text import plain
from league.cli.formatting import format_number, format_percent, plain_table
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

    from arena.records import Episode
    from league.config.credit import CreditConfig
    from league.lab.credit.rescoring import Rescored, Scoring
    from league.population.storage.sampled_matches import SampledMatch
    from roles.role import Roles

EXAMPLES = ("runs/pocket --rule rae:decay=0.9", "matches.jsonl --like runs/pocket --price 0.5 -o cheaper.jsonl")
DEFAULT_PRICE = "all"  # the cost of a forfeit if no role has a price: all it can


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument(
        "matches",
        metavar="RUN|FILE|DIR",
        help="a run with kept matches, or a file of league export, match --save or import",
    )
    parser.add_argument("--like", metavar="RUN", help="whose roles and [credit] apply (default: the run's own)")
    parser.add_argument("--rule", metavar="RULE", help="for every role, as NAME or NAME:KEY=VALUE (default: the run's)")
    parser.add_argument(
        "--price",
        metavar="X",
        help="what a forfeit costs, in the game's units; all: as much as the game can cost (default: as played)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the matches with this credit, in the format of league export"
    )
    add_json_option(parser)


class RoleCredit(NamedTuple):
    """The new credit of one role's turns, compared with stored credit if there is any."""

    game: str
    role: str
    turns: int
    mean: float
    spread: float  # standard deviation
    stored: int  # turns with stored credit
    equal: int  # of them, those whose credit is the same to the last bit
    other_sign: int  # of them, those whose credit has another sign


class RescoreReport(NamedTuple):
    """The credited turns, and how their credit differs."""

    matches: int
    rule: str
    roles: list[RoleCredit]
    settled: int  # matches whose returns changed
    output: str | None


def run(arguments: argparse.Namespace) -> RescoreReport:
    """Credit the matches, and write them if asked to."""
    from league.config.credit import CreditConfig
    from league.config.load import run_roles
    from league.lab.credit.rescoring import rescore
    from league.population.storage.exports import matches_at, save_matches
    from league.population.storage.run_dir import Run, find_run, open_run

    path = None if arguments.output is None else file_to_write(arguments.output, "-o")
    folder = find_run(arguments.matches) if Path(arguments.matches).expanduser().is_dir() else None
    like = open_run(arguments.like) if arguments.like else None if folder is None else Run(folder)
    samples = matches_at(Path(arguments.matches).expanduser())
    roles = _roles(samples) if like is None else run_roles(like.config)
    credit = CreditConfig() if like is None else like.config.credit
    rescored = rescore(samples, roles, _scoring(arguments, credit))
    if path is not None:
        save_matches(path, rescored.samples)
    rule = arguments.rule or ("the run's own" if like else credit.rule)
    return RescoreReport(len(samples), rule, _by_role(samples, rescored), rescored.settled, arguments.output)


def _scoring(arguments: argparse.Namespace, credit: CreditConfig) -> Scoring:
    from league.lab.credit.rescoring import Scoring
    from league.lab.credit.rules import parse_variant

    price = None if arguments.price in (None, DEFAULT_PRICE) else _price(arguments.price)
    repriced = arguments.price is not None
    if arguments.rule is None:
        return Scoring(credit.rule_for, credit.settings_of, credit.settings_for, credit.scale_returns, price, repriced)
    variant = parse_variant(arguments.rule, credit)
    name = arguments.rule.partition(":")[0]
    return Scoring(
        lambda game, role: name,
        lambda rule: variant.settings,
        lambda game, role: None,
        credit.scale_returns,
        price,
        repriced,
    )


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0.0 <= price < float("inf"):
        raise UsageError(
            f"--price {text}: give the cost of a forfeit, 0 or more in the game's units, or {DEFAULT_PRICE}: as much "
            "as the game can cost."
        )
    return price


def _roles(samples: Sequence[SampledMatch]) -> Roles:
    """Return the roles that the games of stored matches have by default."""
    from arena.records import flatten_episodes
    from games.registry import make_game
    from league.config import RolesConfig
    from league.config.load import seat_roles

    games = {match.request.game for match in flatten_episodes(sample.episode for sample in samples)}
    return {game: seat_roles(RolesConfig(), make_game(game).spec) for game in sorted(games)}


def _by_role(before: Sequence[SampledMatch], rescored: Rescored) -> list[RoleCredit]:
    """Return the new credit by game and role, in the order of their first turns."""
    import numpy as np

    from arena.records import flatten_episodes

    new: dict[tuple[str, str], list[float]] = {}
    for trajectory, advantages_K in zip(rescored.trajectories, rescored.advantages, strict=True):
        new.setdefault((trajectory.game, trajectory.role), []).extend(advantages_K)
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in new}
    order = sorted(before, key=lambda sample: sample.iteration or 0)
    for old, now in zip(order, rescored.samples, strict=True):
        for match, old_K, new_K in zip(flatten_episodes([now.episode]), old.advantages, now.advantages, strict=True):
            for key, earlier, later in _turns(match, old_K, new_K):
                pairs[key].append((earlier, later))
    return [
        RoleCredit(
            *key,
            len(values),
            float(np.mean(values or [0.0])),
            float(np.std(values or [0.0])),
            len(pairs[key]),
            sum(earlier == later for earlier, later in pairs[key]),
            sum(bool(np.sign(earlier) != np.sign(later)) for earlier, later in pairs[key]),
        )
        for key, values in new.items()
    ]


def _turns(
    match: Episode, old_K: Sequence[float | None], new_K: Sequence[float | None]
) -> list[tuple[tuple[str, str], float, float]]:
    """Return the role, the stored credit and the new credit of turns that have both."""
    return [
        ((match.request.game, turn.role), earlier, later)
        for turn, earlier, later in zip(match.turns, old_K, new_K, strict=True)
        if earlier is not None and later is not None
    ]


def to_json(report: RescoreReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {**report._asdict(), "roles": [role._asdict() for role in report.roles]}


def print_report(report: RescoreReport, console: Console) -> None:
    """Print one row for each role, and what has changed."""
    table = plain_table("game", "role", "turns", "mean", "spread", "as stored", "other sign")
    for role in report.roles:
        compared = [format_percent(count / role.stored) if role.stored else "–" for count in role[6:]]
        numbers = [format_number(role.mean), format_number(role.spread)]
        table.add_row(role.game, role.role, str(role.turns), *numbers, *compared)
    console.print(f"{report.matches:,} stored matches, credited by {report.rule}:", markup=False)
    console.print(table)
    if report.settled:
        console.print(f"{report.settled:,} matches were settled again, because their forfeits have another price.")
    if report.output is not None:
        print(
            f"{plain(report.output)}: the matches with this credit. To read one: league replay {plain(report.output)}"
        )
