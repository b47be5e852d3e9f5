"""``league tournament``: a round robin of players, or the rest of a stopped one."""

from __future__ import annotations

import argparse
import re
import shlex
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import full_name, short_name
from games.common import plugins
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from league.cli.formatting import match_progress, print_usage
from league.cli.parser import COUNT, PLAYERS, SEED, Parser, add_json_option, add_player_options

if TYPE_CHECKING:
    from rich.console import Console

    from league.lab.standings.standings import GameStandings
    from league.population.evaluation.tournament import Tournament
    from league.population.evaluation.tournament_plan import TournamentPlan
    from league.population.results.match_store import MatchStore

EXAMPLES = (
    "runs/pocket random equilibrium --game kuhn_poker --run-dir tournaments/kuhn",
    "--resume --run-dir tournaments/kuhn",
)
NOTES = PLAYERS
TOURNAMENTS = Path("tournaments")
MATCHES = 400


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("players", nargs="*", metavar="PLAYER")
    parser.add_argument("--game", metavar="GAME", help="a game for two or more players")
    parser.add_argument("--matches", type=COUNT, metavar="N", help="at least this many for each pair (default: 400)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes all deals and draws (default: 0)")
    parser.add_argument(
        "--run-dir", metavar="DIR", help="where to keep the matches (default: a new folder under tournaments/)"
    )
    parser.add_argument("--resume", action="store_true", help="continue the tournament in --run-dir")
    add_player_options(parser)
    add_json_option(parser)


class TournamentReport(NamedTuple):
    """A finished tournament."""

    folder: Path
    tournament: Tournament
    standings: GameStandings


def run(arguments: argparse.Namespace) -> TournamentReport:
    """Play the remaining matches."""
    from arena.errors import EngineError
    from league.cli.measuring.standings import TOURNAMENT_ANCHOR
    from league.lab.standings.standings import game_standings
    from league.population.evaluation.tournament import Tournament, open_tournament
    from league.population.players.engines import Engines
    from league.population.results.ratings import Ratings

    plan = _plan(arguments)
    with Engines(plan.settings._replace(threads=arguments.threads)) as engines:
        tournament = Tournament(plan, engines)
        folder = _folder(arguments.run_dir, tournament.spec.alias)
        with open_tournament(folder, tournament) as store:
            try:
                _play_missing(tournament, store)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_how_to_resume(folder, tournament, store)) from None
            except EngineError as error:
                raise EngineError(f"{error}\n{_how_to_resume(folder, tournament, store)}") from error.__cause__
            standings = game_standings(store, tournament.spec, ratings=Ratings(), anchors=[TOURNAMENT_ANCHOR])
            return TournamentReport(folder, tournament, standings)


def _how_to_resume(folder: Path, tournament: Tournament, store: MatchStore) -> str:
    """Return how many matches were played, what they cost, and the command that resumes the tournament."""
    from arena.remote.usage import format_usage

    return "\n".join(
        [
            *format_usage(tournament.engines.usage()),
            f"Stopped after {len(store.indices())} of {len(tournament)} matches, which are kept. To go on:",
            f"  league tournament --resume --run-dir {shlex.quote(str(folder))}{plugins.as_options()}",
        ]
    )


def _plan(arguments: argparse.Namespace) -> TournamentPlan:
    """Return the plan that the options give, or the one in the folder to resume."""
    from league.population.evaluation.tournament_plan import TournamentPlan, load_plan
    from league.population.players.settings import PlayerSettings

    settings = PlayerSettings.of(arguments)
    if not arguments.resume:
        if arguments.game is None:
            raise UsageError("A tournament needs a game: name it, for example --game kuhn_poker.")
        matches = MATCHES if arguments.matches is None else arguments.matches
        seed = arguments.seed or 0
        game, players = full_name(arguments.game), tuple(arguments.players)
        return TournamentPlan(game, players, matches, seed, settings._replace(threads=None))
    if arguments.run_dir is None:
        raise UsageError("--resume needs the folder of the tournament: --run-dir DIR.")
    if (
        arguments.players
        or settings.given()
        or any(value is not None for value in (arguments.game, arguments.matches, arguments.seed))
    ):
        raise UsageError(
            "--resume continues the tournament as it began. Leave out players, --game, --matches, --seed and all "
            "settings of players except --threads."
        )
    return load_plan(Path(arguments.run_dir))


def _folder(named: str | None, game: str) -> Path:
    """Return the folder of a tournament: the ``named`` one, or the first new one of ``tournaments/GAME-1``, …."""
    if named is not None:
        return folder_to_fill(named, "--run-dir")
    stem = re.sub(r"\W+", "-", game).strip("-")
    free = next(path for number in count(1) if not (path := TOURNAMENTS / f"{stem}-{number}").exists())
    return folder_to_fill(str(free), "--run-dir")


def _play_missing(tournament: Tournament, store: MatchStore) -> None:
    """Play the matches that are not stored yet, with progress on stderr."""
    done = len(store.indices())
    with match_progress() as progress:
        task = progress.add_task(f"playing {tournament.spec.alias}", total=len(tournament), completed=done)
        tournament.play(store, lambda _: progress.advance(task))


def to_json(report: TournamentReport) -> dict[str, Any]:
    """Return the report as JSON data."""
    from league.cli.measuring.standings_report import game_to_json

    return {
        "tournament": str(report.folder),
        "question": report.tournament.plan.to_json(),
        "standings": game_to_json(report.standings),
        "usage": {player: usage._asdict() for player, usage in report.tournament.engines.usage().items()},
    }


def print_report(report: TournamentReport, console: Console) -> None:
    """Print the plan and the standings."""
    from league.cli.measuring.standings_report import print_game

    plan = report.tournament.plan
    title = f"{short_name(plan.game)}: a tournament of {len(plan.players)} players (seed {plan.seed})"
    console.print(title, style="bold", markup=False)
    console.print(
        f"Every pair played every deal in every seating. The matches are kept in {report.folder}.", markup=False
    )
    console.print()
    print_game(report.standings, console)
    print_usage(report.tournament.engines.usage(), console)
