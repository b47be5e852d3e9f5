"""``league tournament``: any players against each other, every pair on every deal in every seating."""

from __future__ import annotations

import argparse
import re
import shlex
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from arena.errors import EngineError
from arena.remote.usage import in_words
from games.errors import UsageError
from league.commands.standings import TOURNAMENT_ANCHOR
from league.commands.standings_words import document_game, tell_game
from league.match_store import MatchStore
from league.player_engines import Engines
from league.ratings import Ratings
from league.standings import GameStandings, game_standings
from league.tournament import Question, Tournament, opened, read_question

TOURNAMENTS = Path("tournaments")
MATCHES, SEED = 400, 0


class Found(NamedTuple):
    """A tournament that is over."""

    folder: Path
    tournament: Tournament
    standings: GameStandings


def run(arguments: argparse.Namespace) -> Found:
    """Play the matches that are not played yet."""
    question = _question(arguments)
    with Engines() as engines:
        tournament = Tournament(question, engines)
        folder = Path(arguments.run_dir) if arguments.run_dir else _new_folder(tournament.spec.name)
        with opened(folder, tournament) as store:
            try:
                _play(tournament, store)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_stopped(folder, tournament, store)) from None
            except EngineError as error:
                raise EngineError(f"{error}\n{_stopped(folder, tournament, store)}") from error.__cause__
            standings = game_standings(store, tournament.spec, ratings=Ratings(), anchors=[TOURNAMENT_ANCHOR])
            return Found(folder, tournament, standings)


def _stopped(folder: Path, tournament: Tournament, store: MatchStore) -> str:
    """Return how far a tournament came, what that cost, and the command that goes on with it."""
    return "\n".join(
        [
            *in_words(tournament.engines.usage()),
            f"Stopped after {len(store.indices())} of {len(tournament)} matches, which are kept. To go on:",
            f"  league tournament --resume --run-dir {shlex.quote(str(folder))}",
        ]
    )


def _question(arguments: argparse.Namespace) -> Question:
    """Return what is asked, or what the folder to resume asks."""
    if not arguments.resume:
        if arguments.game is None:
            raise UsageError("A tournament is in a game: name it, for example --game kuhn_poker.")
        matches = MATCHES if arguments.matches is None else arguments.matches
        seed = SEED if arguments.seed is None else arguments.seed
        return Question(arguments.game, tuple(arguments.players), matches, seed)
    if arguments.run_dir is None:
        raise UsageError("--resume needs the folder of the tournament: --run-dir DIR.")
    if arguments.players or any(value is not None for value in (arguments.game, arguments.matches, arguments.seed)):
        raise UsageError(
            "--resume goes on with what the tournament began with. Leave players, --game, --matches and --seed out."
        )
    return read_question(Path(arguments.run_dir))


def _new_folder(game: str) -> Path:
    """Return ``tournaments/GAME-1``, or ``-2`` and so on while that is taken."""
    stem = re.sub(r"\W+", "-", game).strip("-")
    return next(path for number in count(1) if not (path := TOURNAMENTS / f"{stem}-{number}").exists())


def _play(tournament: Tournament, store: MatchStore) -> None:
    """Play what is missing, with progress on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = len(store.indices())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"playing {tournament.spec.name}", total=len(tournament), completed=done)
        tournament.play(store, lambda _: progress.advance(task))


def document(found: Found) -> dict[str, Any]:
    """Return the tournament as JSON data."""
    return {
        "tournament": str(found.folder),
        "question": found.tournament.question._asdict(),
        "standings": document_game(found.standings),
        "usage": {player: usage._asdict() for player, usage in found.tournament.engines.usage().items()},
    }


def tell(found: Found, console: Console) -> None:
    """Print what was asked, and the standings."""
    question = found.tournament.question
    title = f"{question.game}: a tournament of {len(question.players)} players (seed {question.seed})"
    console.print(title, style="bold", markup=False)
    console.print(
        f"Every pair played every deal in every seating. The matches are kept in {found.folder}.", markup=False
    )
    console.print()
    tell_game(found.standings, console)
    for line in in_words(found.tournament.engines.usage()):
        console.print(f"\n{line}", markup=False)
