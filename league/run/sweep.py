"""A sweep: runs of one preset that differ in their seeds and in some settings, resumable.

``sweep.json`` in its folder has the plan with every run's resolved configuration, so a preset that changes meanwhile
changes nothing. Each run is a folder beside it, as `league train` makes it. A run that fails does not stop the others.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from games.common.errors import UsageError
from games.common.files import atomic_write
from league.config import RunConfig
from league.config.load import CONFIG_FILE, load, parse_override, to_toml, validate
from league.run.failures import RunFailed
from league.run.session import resume, train
from league.storage.checkpoint import finished_iterations
from league.storage.run_dir import SWEEP_FILE

LAYOUT = 1  # of the plan
MOST_RUNS = 1000


class SweepRun(NamedTuple):
    """One run of a sweep."""

    folder: str  # within the sweep's
    config: RunConfig


class Trained(NamedTuple):
    """How the training of one run ended."""

    finished: bool  # False: stopped by a signal, or failed
    failure: str  # why it failed; "" if it did not


class SweepOutcome(NamedTuple):
    """How a sweep ended."""

    stopped: bool  # by a signal: it can be resumed
    failures: dict[str, str]  # why runs failed, by folder


def plan_sweep(source: str, seeds: Sequence[int], settings: Sequence[str]) -> list[SweepRun]:
    """Return the runs of a sweep: every seed under every combination of the settings that have several values.

    ``settings`` are overrides; values are divided by commas (``credit.rule=rae,mars``). Raises UsageError as ``load``
    does, before anything is trained, and for more than ``MOST_RUNS``.
    """
    choices = [_choices(setting) for setting in settings]
    combinations = list(itertools.product(*choices))
    if len(combinations) * len(seeds) > MOST_RUNS:
        raise UsageError(
            f"{len(combinations)} settings of {len(seeds)} seeds are {len(combinations) * len(seeds):,} runs; a sweep "
            f"has at most {MOST_RUNS:,}. Leave out seeds or values."
        )
    swept = [len(values) > 1 for values in choices]
    runs = []
    for chosen in combinations:
        label = "_".join(word for word, varies in zip(chosen, swept, strict=True) if varies) or Path(source).stem
        for seed in seeds:
            folder = re.sub(r"[^\w.=+-]+", "-", f"{label}_seed-{seed}")
            runs.append(SweepRun(folder, load(source, [*chosen, f"seed={seed}"])))
    if len({run.folder for run in runs}) < len(runs):
        raise UsageError("Two runs of the sweep would be the same. Name each seed and each value once.")
    return runs


def save_plan(folder: Path, runs: Sequence[SweepRun]) -> None:
    """Write the plan of a new sweep into its folder."""
    table = {"layout": LAYOUT, "runs": [{"folder": run.folder, "config": to_toml(run.config)} for run in runs]}
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / SWEEP_FILE, json.dumps(table, indent=1) + "\n")


def load_sweep(folder: Path) -> list[SweepRun]:
    """Return the runs of the sweep in a folder. Raises UsageError where there is none, or its plan is damaged."""
    path = folder / SWEEP_FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["layout"] != LAYOUT:
            raise UsageError(f"{path} has layout {table['layout']}; this league reads {LAYOUT}. Begin a new sweep.")
        return [SweepRun(run["folder"], validate(tomllib.loads(run["config"]))) for run in table["runs"]]
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no sweep: it has no {SWEEP_FILE}. Name one with --run-dir.") from None
    except UsageError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged ({error}). Restore it from a copy.") from error


def finished(folder: Path, run: SweepRun) -> bool:
    """Return whether a run of a sweep has done all its iterations."""
    return finished_iterations(folder / run.folder) >= run.config.iterations


def run_sweep(folder: Path, runs: Sequence[SweepRun], announce: Callable[[str], object]) -> SweepOutcome:
    """Train the runs that are not complete, each from where it stopped; ``announce`` tells of each."""
    failures: dict[str, str] = {}
    for number, run in enumerate(runs, 1):
        if finished(folder, run):
            continue
        announce(f"Run {number} of {len(runs)}: {folder / run.folder}")
        trained = train_or_resume(folder, run)
        if trained.failure:
            failures[run.folder] = trained.failure
            announce(f"It failed; the others go on. {trained.failure}")
        elif not trained.finished:
            return SweepOutcome(stopped=True, failures=failures)
    return SweepOutcome(stopped=False, failures=failures)


def train_or_resume(folder: Path, run: SweepRun) -> Trained:
    """Train a run of a sweep in its folder, from where it stopped if it has begun."""
    path = folder / run.folder
    try:
        outcome = resume(path) if (path / CONFIG_FILE).is_file() else train(run.config, path)
    except RunFailed as failure:
        return Trained(False, str(failure))
    return Trained(outcome.finished, "")


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of "0-4" or "0,2,7-9". Raises UsageError for anything else, and for a seed named twice."""
    seeds: list[int] = []
    for part in text.split(","):
        bounds = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if first > last or last - first >= MOST_RUNS:
            raise UsageError(f"--seeds {text}: write them as 0-4, or as 0,2,7-9; at most {MOST_RUNS:,}.")
        seeds += range(first, last + 1)
    if len({*seeds}) < len(seeds):
        raise UsageError(f"--seeds {text}: a seed is named twice.")
    return seeds


def _choices(setting: str) -> list[str]:
    """Return the overrides that one with several values stands for, in their order."""
    keys, _ = parse_override(setting)
    if keys == ["seed"]:
        raise UsageError(f"--set {setting}: a sweep's seeds are named by --seeds, for example --seeds 0-4.")
    at = _end_of_key(setting)
    return [setting[: at + 1] + value.strip() for value in _divided(setting[at + 1 :])]


def _end_of_key(setting: str) -> int:
    """Return the place of the equal sign that ends an override's key, as ``parse_override`` finds it."""
    return next(at for at, char, inside in _scanned(setting) if char == "=" and not inside)


def _divided(values: str) -> list[str]:
    """Return the parts between commas that are in no brackets, quotes or parentheses."""
    cuts = [at for at, char, inside in _scanned(values) if char == "," and not inside]
    return [values[begin + 1 : end] for begin, end in itertools.pairwise([-1, *cuts, len(values)])]


def _scanned(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each character with its place, and whether it stands within brackets or quotes."""
    depth, quote = 0, ""
    for at, char in enumerate(text):
        yield at, char, bool(depth or quote)
        if char in (quote or "\"'"):
            quote = "" if quote else char
        elif not quote:
            depth += (char in "([{") - (char in ")]}")
