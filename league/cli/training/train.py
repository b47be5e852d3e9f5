"""``league train``: train a new run or resume one, then print what was learned and what to try next."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from games.aliases import short_name
from games.common import plugins
from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from games.common.text import plain
from league.cli.formatting import format_number, match_progress, plain_table
from league.cli.parser import SEED, Parser

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from games.spec import GameSpec
    from league.config import RunConfig
    from league.lab.comparisons.before_and_after import Change
    from league.population.storage.run_dir import Run
    from league.training.loop.session import Outcome

MOST_LEARNED = 7  # lines on what was learned, at the end of a run
EXAMPLES = (
    "pocket",
    "pocket --seed 1 --set iterations=50 --set credit.rule=grpo --set matchmaking.group_size=8",
    "settle --game leduc_poker",
    "my.toml --run-dir runs/mine",
    "--resume --run-dir runs/mine",
)
DEFAULT_PRESET = "pocket"


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("config", nargs="?", metavar="PRESET|FILE.toml", help="what to train (default: pocket)")
    parser.add_argument(
        "--game",
        action="append",
        default=[],
        metavar="GAME",
        help="train this game instead of the preset's, with as many matches as suit its length; may be given several "
        "times",
    )
    parser.add_argument("--run-dir", metavar="DIR", help="where to keep the run (default: a new folder under runs/)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="seed of every stream of randomness")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument("--resume", action="store_true", help="continue where an interrupted run stopped")
    parser.add_argument(
        "--from",
        dest="from_iteration",
        type=int,
        metavar="N",
        help="with --resume: go back to the state saved after iteration N, for example if a newer one is damaged",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="play on a Ray cluster: HOST:PORT, auto (the one of this machine), or local (start one here)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train; return 0 when the run is complete, 130 when it was stopped, 1 when an update failed."""
    from league.config.load import load
    from league.training.loop.readiness import check_start
    from league.training.monitors.terminal import Terminal

    if int(os.environ.get("RANK", "0")):  # torchrun started this process; it follows rank 0
        from league.training.learning.data_parallel import run_follower, torchrun_rendezvous  # torch is slow to import

        if (rendezvous := torchrun_rendezvous()) is not None:
            run_follower(rendezvous)
            return 0
    if arguments.from_iteration is not None and not arguments.resume:
        raise UsageError("--from goes back to a saved state of a run to resume: add --resume.")
    chosen: list[str] = []
    if arguments.resume:
        run_dir = _run_to_resume(arguments)
    else:
        seed = [] if arguments.seed is None else [f"seed={arguments.seed}"]
        source = DEFAULT_PRESET if arguments.config is None else arguments.config
        config = load(source, [*seed, *arguments.set], tell=chosen.append, games=arguments.game)
        if arguments.game:
            chosen.append(_games_sentence(config))
        run_dir = new_run_dir(Path(source).stem, arguments.run_dir)
        check_start(config, arguments.cluster or "")
        chosen += _plan(config, arguments.cluster or "")
    console = Terminal(soft_wrap=True)
    console.print(f"The run is kept in {run_dir}. Ctrl-C stops it so that it can be resumed.", markup=False)
    for sentence in chosen:
        console.print(sentence, markup=False)
    from league.training.loop.session import resume, train  # torch is slow to import

    cluster = arguments.cluster or ""
    return run_session(
        lambda: (
            resume(run_dir, cluster, arguments.from_iteration) if arguments.resume else train(config, run_dir, cluster)
        ),
        run_dir,
        console,
    )


def _plan(config: RunConfig, cluster: str) -> Iterable[str]:
    """Return a pretrained run's plan: its memory, and on GPUs its seconds.

    On a processor these depend on how few tokens prompts really have and share, which nobody knows before. Raises
    UsageError for a run that cannot fit this machine's memory.
    """
    from league.training.sizing.facts import shape_of
    from league.training.sizing.plan import plan_here

    if config.model.source == "pocket":
        return ()
    try:
        made = plan_here(config, shape_of(config))
    except UsageError:  # a model that is not planned may train all the same
        return ()
    if made is None:
        return ()
    if not made.fits and not cluster:  # of a cluster's machines nothing is known
        raise UsageError(f"This run does not fit {made.gpus}: {made.misfits[0]}. See: league plan")
    memory, seconds = made.lines()
    return (memory, seconds) if config.model.device != "cpu" else (memory,)


def run_session(session: Callable[[], Outcome], run_dir: Path, console: Console) -> int:
    """Run a training session and print how it ended; return 0, 130 if it was stopped, 1 if an update failed."""
    from arena.errors import EngineError
    from arena.remote.usage import format_usage
    from league.config import CONFIG_FILE
    from league.population.storage.run_dir import Run
    from league.training.loop.failures import RunFailed

    try:
        outcome = session()
    except RunFailed as failure:
        console.file.flush()
        sys.stderr.write(f"league: {plain(str(failure))}\n")
        return 1
    except EngineError:
        if (run_dir / CONFIG_FILE).is_file():
            _print_how_to_resume(
                "Stopped by an engine; all but the iteration in progress is saved. To go on:", run_dir, console
            )
        raise
    except KeyboardInterrupt:
        if not (run_dir / CONFIG_FILE).is_file():  # stopped before there was a run
            raise
        _print_how_to_resume("Stopped at once; the iteration in progress is lost. To go on:", run_dir, console)
        return 130
    for line in format_usage(outcome.usage):
        console.print(line, markup=False)
    if not outcome.finished:
        how = f"Stopped after iteration {outcome.iteration}; everything is saved. To go on:"
        _print_how_to_resume(how, run_dir, console)
        return 130
    _print_results(Run(run_dir), console)
    print_suite(Run(run_dir), console)
    return 0


def _games_sentence(config: RunConfig) -> str:
    """Return a sentence on the games that replace a preset's."""
    games = ", ".join(f"{short_name(name)} ({game.matches:,} matches)" for name, game in config.games.items())
    return f"An iteration trains {games}."


def _print_how_to_resume(how: str, run_dir: Path, console: Console) -> None:
    """Print how a run stopped, and the command that resumes it."""
    command = f"league train --resume --run-dir {shlex.quote(str(run_dir))}{plugins.as_options()}"
    console.print(f"{how}\n  {command}", markup=False)


def _run_to_resume(arguments: argparse.Namespace) -> Path:
    """Return the run in --run-dir, or the newest run of the preset, or the newest run of all."""
    from league.config import CONFIG_FILE
    from league.population.storage.run_dir import RUNS

    if arguments.set or arguments.game or arguments.seed is not None:
        raise UsageError(
            "--resume continues with the run's own configuration, so that it ends as if it had never stopped. Leave "
            "out --set, --game and --seed, or start a new run."
        )
    if arguments.run_dir is not None:
        return folder_to_fill(arguments.run_dir, "--run-dir")
    stem = Path(arguments.config).stem if arguments.config else ""
    run_dirs = [path.parent for path in RUNS.glob(f"{stem or '[!.]'}*/{CONFIG_FILE}")]
    if not run_dirs:
        raise UsageError(f"There is no run of {stem or 'any preset'} under {RUNS}/ to resume. Name one with --run-dir.")
    return max(run_dirs, key=lambda path: path.stat().st_mtime)


def new_run_dir(stem: str, named: str | None = None) -> Path:
    """Return the folder of a new run: the ``named`` one, or the first new one of ``runs/STEM``, ``-2``, ….

    Raises UsageError if it cannot be written, or there is something in it.
    """
    from league.population.storage.run_dir import RUNS, check_unused

    if named is None:
        names = (str(RUNS / (stem if number == 1 else f"{stem}-{number}")) for number in count(1))
        return folder_to_fill(next(name for name in names if not Path(name).exists()), "--run-dir")
    run_dir = folder_to_fill(named, "--run-dir")
    check_unused(run_dir)
    return run_dir


def _print_results(run: Run, console: Console) -> None:
    """Print in a few lines what was learned, and commands to try next; the standings are one of them."""
    from games.registry import make_game
    from league.config.load import policy_names, run_roles
    from league.training.board.metrics_log import read_metrics

    learned = [
        f"{short_name(game)}: {line}"
        for game in run.config.games
        for line in learning_summary(run.path, make_game(game).spec)
    ]
    pretrained = run.config.pretrained(policy_names(run.config, run_roles(run.config)))
    if pretrained and (sentence := utilisation_sentence(read_metrics(run.path))):
        learned.append(sentence)
    name, options = shlex.quote(str(run.path)), plugins.as_options()
    console.print("\nWhat was learned", style="bold")
    for line in learned[:MOST_LEARNED]:
        console.print(f"  {line}", markup=False)
    if len(learned) > MOST_LEARNED:
        console.print(f"  … and {len(learned) - MOST_LEARNED} more lines: league report {name}{options}", markup=False)
    first = next(iter(run.config.games))
    game = shlex.quote(short_name(first))
    has_tables = any(f"{first}/mixture_exploitability" in line for line in read_metrics(run.path))  # else it is refused
    opens_matches = bool(make_game(first).spec.submatch_games)  # a single user cannot play for a whole team
    console.print("\nTry next", style="bold")
    for command in (
        f"league standings {name}",
        f"league match {name} random --game {game}",
        *([f"league exploitability {name}@mixture --game {game}"] if has_tables else []),
        *([] if opens_matches else [f"league play --game {game} --against {name}"]),
        f"league board {name}",
    ):
        console.print(f"  {command}{options}", markup=False)


def learning_summary(run_dir: Path, spec: GameSpec) -> Iterator[str]:
    """Yield sentences on how a game's measurements changed from the first snapshot, or iteration, to the last."""
    from league.training.board.metrics_log import read_metrics

    changes: dict[str, tuple[float, float]] = {}  # by name below GAME/
    for line in read_metrics(run_dir):
        for name, value in line.items():
            if name.startswith(f"{spec.name}/"):
                key = name.removeprefix(f"{spec.name}/")
                changes[key] = (changes.get(key, (value,))[0], value)
    yield from _result(spec, changes)
    yield from _judged(changes)


def _result(spec: GameSpec, changes: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Yield sentences on how well a game is played, from its measurements."""
    exploitability = changes.get("exploitability")
    if spec.competitive or not (exploitability or "best_welfare" in changes):
        yield from _measured(spec, changes)
        return
    # With common or mixed interests, returns say more than a single seat's possible gain.
    yield from _earned(spec, changes)
    if gap := changes.get("ce_gap"):
        yield f"gap to a correlated equilibrium, summed over seats, {_change(gap)}"
    if exploitability:
        yield f"exploitability {_change(exploitability)} ({spec.exploitability_note})"


def _judged(changes: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Yield a sentence on the judge, if there is one and the truth is known."""
    if agreement := changes.get("judge/agreement"):
        bias = changes.get("judge/position_bias")
        leaning = f"; its bias towards whoever is shown first {_change(bias)}" if bias else ""
        yield f"share of verdicts that agree with the truth {_change(agreement)}{leaning}"


def _earned(spec: GameSpec, changes: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Yield sentences on the returns in a small game of common or mixed motives, against the best possible."""
    from games.spec import Utility
    from league.theory.exact.exploitability import optimum

    if joint := changes.get("return"):
        best = spec.optimum if spec.optimum is not None else optimum(spec.name)
        yield f"mean return together {_change(joint)}" + ("" if best is None else f" of at most {best:g}")
    if welfare := changes.get("welfare"):
        possible, pareto = changes.get("best_welfare"), changes.get("pareto_share")
        text = f"welfare (the returns of all seats in training) {_change(welfare)}"
        text += f" of at most {format_number(possible[1])}" if possible else ""
        yield text + (f"; Pareto-optimal matches {_change(pareto)}" if pareto else "")
    roles = [change for key, change in changes.items() if key.startswith("return/")]
    if not welfare and len(roles) == spec.seats > 1 and spec.utility is Utility.GENERAL_SUM:
        first, last = (sum(values) for values in zip(*roles, strict=True))
        yield f"welfare (the returns of all seats in training) {_change((first, last))}"
    if not joint:
        yield from _changes_in_training(changes, "")


def _measured(spec: GameSpec, changes: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Yield sentences on a competitive game, or on one that has no exact values."""
    from games.spec import Utility

    best = f" of at most {spec.optimum:g}" if spec.optimum is not None else ""
    if exploitability := changes.get("exploitability"):
        mixture, value = changes.get("mixture_exploitability"), changes.get("first_seat_value")
        text = f"exploitability {_change(exploitability)}"
        text += f", of the whole population's mixture {format_number(mixture[1])}" if mixture else ""
        yield f"{text} ({spec.exploitability_note})"
        if value:
            yield f"value to the first seat {format_number(value[1])}{_game_value_note(spec)}"
    if spec.utility is Utility.IDENTICAL and (joint := changes.get("return")):
        yield f"mean return together {_change(joint)}{best}"
    elif held_out := changes.get("held_out_return"):
        yield f"mean return on deals that it was not trained on {_change(held_out)}{best}"
    # Where amounts count, as in poker, winning often is not winning much: only games of win or loss show a score.
    elif (spec.min_return, spec.max_return) == (-1.0, 1.0) and (score := changes.get("score_against_random")):
        yield f"score against random {_change(score)} (win 1, draw ½, loss 0)"
    elif not exploitability:
        yield from _changes_in_training(changes, best)


def utilisation_sentence(metrics: Iterable[Mapping[str, float]]) -> str:
    """Return what share of a plain product's rate play and learning reached over a run; "" where none is known."""
    shares: dict[str, list[float]] = {}
    for line in metrics:
        for name, value in line.items():
            if name.startswith("mfu/"):
                shares.setdefault(name.removeprefix("mfu/"), []).append(value)
    words = {"play": "play", "learn": "learning"}
    parts = [f"{words[phase]} {fmean(values):.0%}" for phase, values in sorted(shares.items(), reverse=True)]
    told = f"of the rate of a plain product on this machine: {', '.join(parts)} (league show docs learner)"
    return told if parts else ""


def _changes_in_training(changes: Mapping[str, tuple[float, float]], best: str) -> Iterator[str]:
    """Yield sentences on training matches, if nothing was measured at snapshots."""
    any_change = False
    for kind, text in (("return", "mean return in training as"), ("share", "share of the actions:")):
        for key, change in changes.items():
            if key.startswith(f"{kind}/"):
                any_change = True
                yield f"{text} {key.partition('/')[2]} {_change(change)}{best if kind == 'return' else ''}"
    if not any_change and (score := changes.get("score_against_random")):
        yield f"score against random {_change(score)} (win 1, draw ½, loss 0)"
    elif not any_change:
        yield "nothing was measured; matches show how strong it is: league match"


def _change(change: tuple[float, float]) -> str:
    return f"{format_number(change[0])} → {format_number(change[1])}"


def _game_value_note(spec: GameSpec) -> str:
    """Return a note on the game's value, as a fraction if it is a simple one; empty if the value is unknown."""
    from league.theory.exact.game_value import game_value

    value = game_value(spec)
    if value is None:
        return ""
    fraction = Fraction(value).limit_denominator(100)
    exact = str(fraction) if abs(fraction - value) < 1e-9 else format_number(value)
    return f", in theory {exact.replace('-', '−')}"


def print_suite(run: Run, console: Console) -> None:
    """Play the remaining matches of a run's suite, if it has one, and print their table."""
    from league.lab.comparisons.before_and_after import changes

    settings = run.config.evaluation
    if settings.suite is None or not settings.suite_matches:
        return
    with match_progress() as progress:
        task = progress.add_task(f"playing {settings.suite}", total=None)
        differences = changes(run, lambda _: progress.advance(task))
    console.print(f"\nGames of {settings.suite}, trained and held out", style="bold", markup=False)
    console.print("Mean returns of the first snapshot and of the last, on the same deals.")
    console.print(_table(differences))


def _table(differences: list[Change]) -> Table:
    table = plain_table("game", "", "against", "first", "last", "difference", "95% interval")
    for change in differences:
        pairing, (mean, *bounds) = change.pairing, change.difference
        low, high = (format_number(bound, signed=True) for bound in bounds)
        table.add_row(
            short_name(pairing.game).partition("(")[0],
            "trained" if pairing.kind == "training" else pairing.kind,
            pairing.opponent,
            format_number(change.before.returns.mean, signed=True),
            format_number(change.after.returns.mean, signed=True),
            format_number(mean, signed=True),
            f"{low} to {high}",
        )
    return table
