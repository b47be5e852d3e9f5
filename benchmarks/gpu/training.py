"""Whole iterations of a league, and how long a pretrained model takes to play Kuhn poker well."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from arena.roofline import SMOLLM2
from benchmarks.gpu.session import CutOff, Report, Setup
from benchmarks.gpu.shapes import random_model
from benchmarks.gpu.timing import busy_share

MATCHES, ITERATIONS, LENGTHS = 512, 3, (64, 256)
WELL_PLAYED = 0.05  # exploitability
MODEL = "smollm2-135m"
TINY = ("model.hidden_size=16", "model.layers=1", "model.vocabulary=300", "cold_start.steps=1", "cold_start.matches=4")


def iterations(setup: Setup, report: Report) -> None:
    """Store the shares of time of iterations of Kuhn poker, with free replies that run to their limit."""
    with tempfile.TemporaryDirectory() as folder:
        source = "pocket"
        if not setup.tiny:
            source = str(Path(folder) / "model")
            random_model(SMOLLM2, "cpu", "float32").save(Path(source))
        for length in (4,) if setup.tiny else LENGTHS:
            key = f"iteration/{length}"
            if not report.affords(key):
                return
            with report.telling_of_failures(key):
                settings = _free_replies(setup, source, length)
                with busy_share(setup.device) as busy:
                    logged = _train(
                        "pocket-returns", settings, Path(folder) / str(length), lambda *_: report.left < 0.0
                    )
                rows = [
                    row for row in logged if row.get("iteration", 0) > (0 if setup.tiny else 1)
                ]  # the first warms up
                names = sorted({name for row in rows for name in row if name.startswith(("time/", "mfu/"))})
                shares = {name: fmean(row[name] for row in rows if name in row) for name in names}
                report.case(key=key, matches=4 if setup.tiny else MATCHES, iterations=len(rows), busy=busy, **shares)


def _free_replies(setup: Setup, source: str, length: int) -> list[str]:
    """Return the settings of free replies without a cold start: an untrained model writes to the limit."""
    small = TINY if setup.tiny else (f"model.source={source}", "cold_start.steps=0", "policies.main.weights=full")
    return [
        f"games={{kuhn_poker = {{matches = {4 if setup.tiny else MATCHES}}}}}",
        "roles.reply=free",
        "roles.on_illegal=forfeit",
        f"roles.max_reply_tokens={length}",
        "optimizer.max_gap=1000.0",
        f"iterations={1 if setup.tiny else ITERATIONS}",
        *_machine(setup),
        *small,
    ]


def learning(setup: Setup, report: Report) -> None:
    """Store the seconds that SmolLM2 takes to an exploitability of ``WELL_PLAYED`` in Kuhn poker, and its curve."""
    from games.common.errors import UsageError
    from league.population.models.source import model_folder

    preset, settings = "smol", list(_machine(setup))
    if setup.tiny:
        preset = "pocket-returns"
        settings += ["games={kuhn_poker = {matches = 4}}", "iterations=1", *TINY]
    else:
        try:
            model_folder(MODEL)
        except UsageError as error:
            report.note(f"Not measured: {error}")
            return
        settings += ["games={kuhn_poker = {matches = 1024}}", "iterations=400", "snapshot_every=5"]
    start, curve = time.perf_counter(), []

    def watch(iteration: int, metrics: Mapping[str, float]) -> bool:
        exploitability = metrics.get("kuhn_poker/exploitability")
        if exploitability is not None:
            curve.append({"iteration": iteration, "seconds": time.perf_counter() - start, "value": exploitability})
            report.add(exploitability=curve, reached=exploitability <= WELL_PLAYED)
        return report.left < 0.0 or (exploitability is not None and exploitability <= WELL_PLAYED)

    with tempfile.TemporaryDirectory() as folder:
        _train(preset, settings, Path(folder) / "run", watch)


def _machine(setup: Setup) -> tuple[str, ...]:
    return (f"model.device={setup.device}", "model.dtype=float32", "engine.kind=torch")


def _train(
    preset: str, settings: Sequence[str], run_dir: Path, watch: Callable[[int, Mapping[str, float]], bool]
) -> list[dict[str, Any]]:
    """Train a run of a preset in this process, its view on standard error; return what it logged."""
    from league.config.load import load
    from league.training.board.metrics_log import read_metrics
    from league.training.loop.session import train

    asked: list[int] = []

    def watched(iteration: int, metrics: Mapping[str, float]) -> bool:
        if watch(iteration, metrics):
            asked.append(iteration)
        return bool(asked)

    with contextlib.redirect_stdout(sys.stderr):
        outcome = train(load(preset, [*settings]), run_dir, watch=watched)
    if not outcome.finished and not asked:  # the run has caught the signal that was meant for the whole measurement
        raise CutOff("told to end")
    return list(read_metrics(run_dir))
