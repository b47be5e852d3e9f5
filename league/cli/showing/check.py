"""``league check GAME``: does a game, such as your own, obey the rules for games? Found out by playing it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from league.cli.parser import COUNT, Parser, add_json_option, add_seed_option

if TYPE_CHECKING:
    from rich.console import Console

    from games.conformance import CheckResult
    from games.spec import GameSpec

EXAMPLES = ("kuhn_poker", "my_game --plugin my_games", '"my_game(size=5)" --plugin my_games --json')
NOTES = "The status is 1 if a check fails. How to write a game: league docs extending"
MATCHES = 200
_MARKS = {"pass": "pass", "fail": "FAIL", "skip": "–"}


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("game", metavar="GAME", help="a game's name, with parameters if it takes any")
    parser.add_argument(
        "--matches", type=COUNT, default=MATCHES, metavar="N", help=f"random matches to play (default: {MATCHES})"
    )
    add_seed_option(parser, "seed of deals and actions: match K has the seed N + K")
    add_json_option(parser)


class CheckReport(NamedTuple):
    """What came of every check of a game."""

    game: str
    matches: int
    seed: int
    results: list[CheckResult]

    @property
    def failed(self) -> list[CheckResult]:
        """The checks that the game does not pass."""
        return [result for result in self.results if result.state == "fail"]


def run(arguments: argparse.Namespace) -> CheckReport:
    """Check a game. Raises UsageError for a name that is not a game's."""
    from games.common.errors import UsageError
    from games.conformance import CHECKS, FIRST, CheckResult, check_game, raised
    from games.registry import make_game
    from league.cli.formatting import match_progress

    name = str(arguments.game)
    try:
        make_game(name)
    except UsageError:  # no game has this name
        raise
    except Exception as error:  # noqa: BLE001  # of the game's own code
        results = [CheckResult(CHECKS[0].name, CHECKS[0].promise, "fail", raised(error))]
        return CheckReport(name, arguments.matches, arguments.seed, results)
    seeds = range(arguments.seed, arguments.seed + arguments.matches)
    with match_progress() as progress:
        bar = progress.add_task(f"Checking {name}", total=None)
        results = check_game(
            lambda: make_game(name),
            seeds,
            each=lambda check: progress.update(bar, description=f"Checking {name}: {check}"),
        )
    if not any(result.state == "fail" and result.name in FIRST for result in results):
        results.append(_cards(make_game(name).spec))
    return CheckReport(name, arguments.matches, arguments.seed, results)


def _cards(spec: GameSpec) -> CheckResult:
    """Check the role cards, which are a layer above games."""
    from games.common.errors import UsageError
    from games.conformance import CheckResult
    from roles.cards import load_roles
    from roles.role import Wording

    promise = "its seats have role cards with distinct names"
    try:
        names = [role.name for role in load_roles(spec)]
        for wording in Wording:
            load_roles(spec, wording=wording, probes=True)
    except UsageError as error:
        return CheckResult("cards", promise, "fail", str(error))
    if len(set(names)) < len(names):
        return CheckResult("cards", promise, "fail", f"two seats have the same name: {', '.join(names)}")
    return CheckResult("cards", promise, "pass", f"roles: {', '.join(names)}")


def status(report: CheckReport) -> int:
    """Return 1 if a check fails."""
    return int(bool(report.failed))


def to_json(report: CheckReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    head = {"game": report.game, "matches": report.matches, "seed": report.seed, "passed": not report.failed}
    return {**head, "checks": [result._asdict() for result in report.results]}


def print_report(report: CheckReport, console: Console) -> None:
    """Print a line for each check, followed by what is wrong, why it was skipped, or a remark."""
    width = max(len(result.name) for result in report.results)
    for result in report.results:
        style = "bold red" if result.state == "fail" else None
        line = f"{_MARKS[result.state]:<5} {result.name:<{width}}  {result.promise}"
        console.print(line, style=style, markup=False)
        if result.sentence:
            text = result.sentence[:1].upper() + result.sentence[1:]
            console.print(f"{'':<{width + 8}}{text}{'' if text.endswith(('.', '?')) else '.'}", markup=False)
    looked = [result for result in report.results if result.state != "skip"]
    played = f"{report.matches} random matches (seeds from {report.seed})"
    if report.failed:
        console.print(
            f"\n{report.game} fails {len(report.failed)} of {len(looked)} checks, over {played}.", markup=False
        )
    else:
        console.print(f"\n{report.game} passes {len(looked)} checks, over {played}.", markup=False)
