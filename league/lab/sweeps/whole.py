"""A whole sweep: its runs one after another here, in processes side by side, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from arena.cluster.interface import Resources
from league.lab.sweeps.plan import Sweep
from league.lab.sweeps.processes import LocalProcesses
from league.lab.sweeps.questions import Question, command_questions
from league.lab.sweeps.side_by_side import run_on_cluster, run_side_by_side
from league.lab.sweeps.training import SweepOutcome, Task, run_here
from league.population.players.machine import cores
from league.population.storage.lock import run_lock


def run_sweep(
    folder: Path,
    sweep: Sweep,
    announce: Callable[[str], object],
    *,
    workers: int = 0,
    cluster: str = "",
    questions: Mapping[str, Question] | None = None,
) -> SweepOutcome:
    """Train incomplete runs, each from where it stopped, and ask the questions that are not answered.

    ``workers`` is the number of processes side by side; 0: in this one. ``cluster`` is a Ray cluster's address.
    ``questions`` are asked in addition to the sweep's commands. Raises UsageError if another process has the folder.
    """
    task = Task(sweep.tokens, {**command_questions(sweep.commands), **(questions or {})})
    with run_lock(folder):
        if cluster:
            from arena.cluster.ray_cluster import RayCluster  # slow to import

            with RayCluster(cluster, cores()) as joined:
                return run_on_cluster(folder, sweep.runs, task, joined, announce)
        if workers:
            with LocalProcesses(workers) as processes:
                return run_side_by_side(folder, sweep.runs, task, processes, Resources(1.0, 0.0), workers, announce)
        return run_here(folder, sweep.runs, task, announce)
