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

from games.errors import UsageError
from league.match_store import MatchStore
from league.tournament import Question, Tournament, opened, read_question

TOURNAMENTS = Path("tournaments")
MATCHES, SEED = 400, 0


class Found(NamedTuple):
    """A tournament that is over."""

    folder: Path
    tournament: Tournament
    matches: int


def run(arguments: argparse.Namespace) -> Found:
    """Play the matches that are not played yet."""
    question = _question(arguments)
    tournament = Tournament(question)
    folder = Path(arguments.run_dir) if arguments.run_dir else _new_folder(tournament.spec.name)
    with opened(folder, tournament) as store:
        try:
            _play(tournament, store)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"Stopped after {len(store.indices())} of {len(tournament)} matches, which are kept. To go on:\n"
                f"  league tournament --resume --run-dir {shlex.quote(str(folder))}"
            ) from None
        return Found(folder, tournament, store.count(tournament.spec.name))


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
    return {"folder": str(found.folder), **found.tournament.question._asdict(), "played": found.matches}


def tell(found: Found, console: Console) -> None:
    """Print the tournament in words."""
    question = found.tournament.question
    console.print(f"{question.game}: {len(question.players)} players, {found.matches} matches", style="bold")
    console.print(f"Kept in {found.folder}.", markup=False)
