"""``league rate``: ratings of other people's battles, from a CSV, by several methods with their intervals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.errors import UsageError
from league.cli.formatting import estimate_to_json, plain_table
from league.cli.parser import Parser, add_json_option, add_seed_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from league.lab.standings.battle_ratings import BattleRatings, RatedPlayer
    from league.theory.statistics import Estimate

EXAMPLES = ("battles.csv", "battles.csv --json > ratings.json", "battles.csv --check ratings.json")
NOTES = (
    "battles.csv has a header and one battle a line: model_a, model_b and winner (model_a, model_b or tie) or score\n"
    "(0 to 1), and optionally game and deal. All games have equal weight, and battles of one deal form one cluster."
)
MOST_BYTES = 50_000_000  # of a report that is checked
_MEANING = (
    "rating: Bradley-Terry in Elo points, ties count half a win, the first seat's advantage is fitted separately; the "
    "mean player has 1500. nash: mean margin against the maximal lottery, in shares of battles; 0 for those in it. "
    "lottery: chance in it, and rank by lottery after lottery. pairs: rank by ranked pairs. soft: Soft Condorcet, 0 "
    "to 100. leads: * if in the smallest set that beats everybody outside it, and how often so in resampled deals. "
    "Brackets: 95% intervals, by deal."
)


class RateReport(NamedTuple):
    """The ratings, and how they differ from those of an earlier report, where one is checked."""

    source: str
    ratings: BattleRatings
    checked: str | None = None  # the report that was checked
    differences: tuple[str, ...] = ()


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("battles", metavar="BATTLES.csv", help="who met whom, and who won")
    parser.add_argument("--check", metavar="REPORT.json", help="check an earlier --json report of these battles")
    add_seed_option(parser, "the resampled deals")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> RateReport:
    """Read the battles and rate the players. Raises UsageError if it contradicts an earlier report to check."""
    from league.lab.standings.battle_ratings import rate
    from league.lab.standings.battles import read_battles

    source = Path(arguments.battles).name
    earlier = None if arguments.check is None else _earlier(Path(arguments.check).expanduser())
    seed = arguments.seed if earlier is None else earlier.get("seed", arguments.seed)
    report = RateReport(source, rate(read_battles(arguments.battles), seed))
    if earlier is None:
        return report
    found = _differences(earlier, to_json(report))
    if found:
        raise UsageError(f"{arguments.check} does not follow from {source}: {'; '.join(found[:3])}.")
    return report._replace(checked=str(arguments.check))


def _earlier(path: Path) -> dict[str, Any]:
    """Return an earlier report. Raises UsageError for a file that is not one."""
    import json

    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        raise UsageError(f"--check {path}: there is no such report; `league rate BATTLES.csv --json` writes one.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("players"), list) or type(found.get("seed")) is not int:
        raise UsageError(f"--check {path}: it is not a report of `league rate BATTLES.csv --json`.")
    return found


def _differences(earlier: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return in words what an earlier report says otherwise."""
    words = {"digest": "it was made from other battles"}
    return [
        words.get(key, f"its {key} are {str(earlier.get(key))[:60]}, and should be {str(value)[:60]}")
        for key, value in now.items()
        if key != "source" and not _equal(earlier.get(key), value)
    ]


def _equal(one: Any, other: Any) -> bool:
    """Return whether JSON data are equal, numbers up to the rounding of another machine."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        return abs(one - other) <= 1e-6 * max(1.0, abs(other))
    return bool(one == other)


def to_json(report: RateReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    ratings = report.ratings
    return {
        "source": report.source,
        "digest": ratings.digest,
        "battles": ratings.battles,
        "deals": ratings.deals,
        "seed": ratings.seed,
        "players": [_player_to_json(player) for player in ratings.players],
        "seats": {
            game: None if worth is None else estimate_to_json("points", worth) for game, worth in _seats(ratings)
        },
        "leaders": [player.player for player in ratings.players if player.leads],
        "cycle": list(ratings.cycle),
    }


def _seats(ratings: BattleRatings) -> list[tuple[str, Estimate | None]]:
    return list(ratings.seats.items())


def _player_to_json(player: RatedPlayer) -> dict[str, Any]:
    return {**player._asdict(), **estimate_to_json("rating", player.rating)}


def print_report(report: RateReport, console: Console) -> None:
    """Print the table and its conclusions in words."""
    ratings = report.ratings
    console.print(f"{report.source}: {len(ratings.players)} players", style="bold", markup=False)
    console.print(f"{ratings.battles:,} battles of {ratings.deals:,} deals in {len(ratings.seats):,} games.\n")
    console.print(_table(ratings))
    console.print(f"\n{_MEANING}\n", markup=False)
    for sentence in _sentences(report):
        console.print(sentence, markup=False, highlight=False)


def _table(ratings: BattleRatings) -> Table:
    from rich.text import Text

    table = plain_table("player", "battles", "score", "rating", "nash", "lottery", "pairs", "soft", "leads")
    for row in ratings.players:
        low, high = (f"{bound:.0f}" for bound in (row.rating.low, row.rating.high) if bound is not None)
        table.add_row(
            Text(row.player),
            f"{row.battles:,}",
            f"{row.score:.3f}",
            f"{row.rating.mean:.0f} ({low}–{high})".replace("-", "−"),
            f"{row.nash + 0.0 if abs(row.nash) >= 5e-4 else 0.0:.3f}".replace("-", "−"),
            f"{row.lottery:.2f} #{row.lottery_rank}",
            f"#{row.ranked_pairs}",
            f"{row.soft_condorcet:.1f}",
            f"{'* ' if row.leads else ''}{row.membership:.0%}",
        )
    return table


def _sentences(report: RateReport) -> list[str]:
    """Return sentences on the leaders, seats, players that cannot be compared, and the check."""
    ratings = report.ratings
    leading = [player.player for player in ratings.players if player.leads]
    sentences = [f"{leading[0]} beats everybody else."] if len(leading) == 1 else [f"Leaders: {', '.join(leading)}."]
    if ratings.cycle:
        sentences.append(f"They form a cycle: {' beats '.join([*ratings.cycle, ratings.cycle[0]])}.")
    for game, worth in _seats(ratings):
        if worth is None:
            sentences.append(f"{game}: the value of the first seat is unknown: the same players always have it.")
        elif worth.low is not None and worth.high is not None and not worth.low <= 0.0 <= worth.high:
            sentences.append(
                f"{game}: the first seat is worth {worth.mean:+.0f} points ({worth.low:.0f} to {worth.high:.0f})."
            )
    if any(player.component for player in ratings.players):
        sentences.append("No chain of battles connects some players, so their ratings cannot be compared.")
    if report.checked is not None:
        sentences.append(f"{report.checked} follows from these battles.")
    return sentences
