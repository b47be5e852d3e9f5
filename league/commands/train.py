"""``league train``: a new run, or one that goes on; then what was learned and what to try next."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from arena.errors import EngineError
from arena.remote.usage import in_words
from games.errors import UsageError
from games.registry import make_game
from games.spec import GameSpec, Utility
from league import settings
from league.board import read_metrics
from league.commands import standings
from league.commands.words import number
from league.runs import RUNS, Run

if TYPE_CHECKING:
    from league.session import Outcome

DEFAULT = "pocket"


def run(arguments: argparse.Namespace) -> int:
    """Train; return 0 when the run is complete, 130 when it was stopped, 1 when an update failed."""
    if int(os.environ.get("RANK", "0")):  # torchrun started it to follow the process of rank 0
        from league.together import follow, launched  # torch is slow to import

        if (meeting := launched()) is not None:
            follow(meeting)
            return 0
    if arguments.resume:
        run_dir = _to_resume(arguments)
    else:
        seed = [] if arguments.seed is None else [f"seed={arguments.seed}"]
        source = arguments.config or DEFAULT
        config = settings.load(source, [*seed, *arguments.set])
        run_dir = Path(arguments.run_dir) if arguments.run_dir else new_folder(Path(source).stem)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"The run is kept in {run_dir}. Ctrl-C stops it so that it can be resumed.", markup=False)
    from league.session import resume, train  # torch is slow to import

    where = arguments.cluster or ""
    return conclude(
        lambda: resume(run_dir, where) if arguments.resume else train(config, run_dir, where), run_dir, console
    )


def conclude(session: Callable[[], Outcome], run_dir: Path, console: Console) -> int:
    """Hold a training session and tell how it ended; return 0, 130 where it was stopped, 1 where an update failed."""
    from league.session import RunFailed

    try:
        outcome = session()
    except RunFailed as failure:
        console.file.flush()
        sys.stderr.write(f"league: {failure}\n")
        return 1
    except EngineError:
        if (run_dir / settings.CONFIG_FILE).is_file():
            _tell_resume(
                "Stopped by an engine; all but the iteration in progress is saved. To go on:", run_dir, console
            )
        raise
    except KeyboardInterrupt:
        if not (run_dir / settings.CONFIG_FILE).is_file():  # it had not begun
            raise
        _tell_resume("Stopped at once; what the iteration in progress did is lost. To go on:", run_dir, console)
        return 130
    for line in in_words(outcome.usage):
        console.print(line, markup=False)
    if not outcome.finished:
        _tell_resume(f"Stopped after iteration {outcome.iteration}; everything is saved. To go on:", run_dir, console)
        return 130
    _tell(Run(run_dir), console)
    return 0


def _tell_resume(how: str, run_dir: Path, console: Console) -> None:
    """Print how a run stopped, and the command that goes on with it."""
    console.print(f"{how}\n  league train --resume --run-dir {shlex.quote(str(run_dir))}", markup=False)


def _to_resume(arguments: argparse.Namespace) -> Path:
    """Return the run that is meant: the one named, or the newest one of the preset, or of all."""
    if arguments.set or arguments.seed is not None:
        raise UsageError(
            "--resume goes on with the configuration that the run began with, so that it ends as if it had never "
            "stopped. Leave --set and --seed out, or begin a new run."
        )
    if arguments.run_dir:
        return Path(arguments.run_dir)
    stem = Path(arguments.config).stem if arguments.config else ""
    found = [path.parent for path in RUNS.glob(f"{stem}*/{settings.CONFIG_FILE}")]
    if not found:
        raise UsageError(f"There is no run of {stem or 'any preset'} under {RUNS}/ to resume. Name one with --run-dir.")
    return max(found, key=lambda path: path.stat().st_mtime)


def new_folder(stem: str) -> Path:
    """Return ``runs/STEM``, or ``runs/STEM-2`` and so on while that is taken."""
    names = (RUNS / (stem if number == 1 else f"{stem}-{number}") for number in count(1))
    return next(path for path in names if not path.exists())


def _tell(trained: Run, console: Console) -> None:
    """Print standings, what was learned, and the next commands."""
    found = standings.read(trained)
    standings.tell(found, console)
    console.print("\nWhat was learned", style="bold")
    for game in trained.config.games:
        for line in learned(trained.path, make_game(game).spec):
            console.print(f"  {game}: {line}", markup=False)
    first = next(iter(trained.config.games))
    name, game = shlex.quote(str(trained.path)), shlex.quote(first)
    small = found.games[first].measured["mixture_exploitability"]  # else the game has no table to compute it from
    console.print("\nTry next", style="bold")
    for command in (
        f"league match {name} random --game {game}",
        *([f"league exploitability {name}@mixture --game {game}"] if small else []),
        f"league play --game {game} --against {name}",
        f"league board {name}",
    ):
        console.print(f"  {command}", markup=False)


def learned(run_dir: Path, spec: GameSpec) -> Iterator[str]:
    """Yield, in words, how a game's measurements changed from the first snapshot to the last."""
    lines = list(read_metrics(run_dir))

    def change(name: str) -> tuple[float, float] | None:
        values = [line[f"{spec.name}/{name}"] for line in lines if f"{spec.name}/{name}" in line]
        return (values[0], values[-1]) if values else None

    if exploitability := change("exploitability"):
        mixed, value = change("mixture_exploitability"), change("first_seat_value")
        text = f"exploitability {number(exploitability[0])} → {number(exploitability[1])}"
        text += f", of the whole population's mixture {number(mixed[1])}" if mixed else ""
        yield f"{text} (0 is a Nash equilibrium)"
        if value:
            yield f"value to the first seat {number(value[1])}{_theory(spec)}"
    if spec.utility is Utility.IDENTICAL and (together := change("return")):
        best = f" of at most {spec.optimum:g}" if spec.optimum is not None else ""
        yield f"mean return together {number(together[0])} → {number(together[1])}{best}"
    # Where amounts count, as in poker, winning often is not winning much: only win-or-lose games show a score.
    elif (spec.min_return, spec.max_return) == (-1.0, 1.0) and (against := change("score_against_random")):
        yield f"score against random {number(against[0])} → {number(against[1])} (win 1, draw ½, loss 0)"


def _theory(spec: GameSpec) -> str:
    """Return the game's value as a fraction where it is a plain one, else as a number; nothing if unknown."""
    from league.game_value import game_value

    value = game_value(spec)
    if value is None:
        return ""
    fraction = Fraction(value).limit_denominator(100)
    exact = str(fraction) if abs(fraction - value) < 1e-9 else number(value)
    return f", in theory {exact.replace('-', '−')}"
