"""Several runs from Python: `league sweep` with any configurations and any questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from games.common.destinations import folder_to_fill
from league.cli.python.runs import TrainingRun
from league.config import RunConfig
from league.lab.sweeps.plan import Sweep, SweepRun, different, extended, folder_name, save_plan
from league.lab.sweeps.questions import Question
from league.lab.sweeps.record import Cost, read_record
from league.lab.sweeps.whole import run_sweep
from league.training.loop.readiness import check_start


class SweptRun(NamedTuple):
    """A run of a sweep that is complete."""

    condition: str
    seed: int
    run: TrainingRun
    cost: Cost | None  # None: it was trained by another command
    answers: dict[str, dict[str, Any]]  # by question


def sweep(
    conditions: Mapping[str, RunConfig],
    run_dir: str | Path,
    *,
    seeds: Iterable[int] = range(5),
    workers: int = 0,
    cluster: str = "",
    tokens: int | None = None,
    questions: Mapping[str, Question] | None = None,
    commands: Iterable[str] = (),
    announce: Callable[[str], object] | None = None,
) -> list[SweptRun]:
    """Train every configuration with every seed; return the runs that are complete, by seeds and then conditions.

    A sweep that is already in ``run_dir`` is resumed: trained runs are not trained again, and other runs stay.
    ``workers`` are processes side by side on this machine (0: only this one), ``cluster`` is a Ray cluster's
    address, and ``tokens`` ends each run at its first snapshot after that many generated tokens. After a run is
    trained, each of ``questions`` is called with its folder and returns JSON data; each of ``commands`` is a `league`
    command, in which RUN stands for the run. ``announce`` is called when a run begins or ends.

    With workers a question must be a function of a module, and a script must start its work under
    ``if __name__ == "__main__"``, as ``multiprocessing`` says.

    Raises UsageError for configurations that cannot train here and for a run whose settings differ from the plan,
    KeyboardInterrupt if the sweep was stopped, and SweepFailed, which names the runs that failed.
    """
    folder = folder_to_fill(str(run_dir), "run_dir")
    for config in conditions.values():
        check_start(config, cluster)
    wanted = Sweep(_runs(conditions, seeds), tokens, tuple(commands))
    save_plan(folder, extended(folder, wanted))
    outcome = run_sweep(folder, wanted, announce or str, workers=workers, cluster=cluster, questions=questions)
    if outcome.stopped:
        raise KeyboardInterrupt
    if outcome.failures:
        raise SweepFailed(outcome.failures)
    return [_swept(folder, run) for run in wanted.runs]


def _runs(conditions: Mapping[str, RunConfig], seeds: Iterable[int]) -> tuple[SweepRun, ...]:
    return different(
        [
            SweepRun(folder_name(name, seed), config.model_copy(update={"seed": seed}), name)
            for seed in seeds
            for name, config in conditions.items()
        ]
    )


def _swept(folder: Path, run: SweepRun) -> SweptRun:
    path = folder / run.folder
    record = read_record(path)
    return SweptRun(run.condition, run.config.seed, TrainingRun(path), record.cost, record.answers)


class SweepFailed(RuntimeError):
    """Runs of a sweep failed; the others are complete. ``failures`` says why, by the run's folder."""

    def __init__(self, failures: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{name}: {why}" for name, why in failures.items()))
        self.failures = dict(failures)
