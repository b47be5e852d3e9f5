"""The runs of a sweep side by side, each in its own process: on this machine, or on a cluster.

Plain tasks, not Ray Tune: nothing is searched or stopped early, and each run's folder already has the state from which
it resumes, of which Tune would keep a second copy.
"""

from __future__ import annotations

import time
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Protocol

from arena.cluster.interface import PendingCall, Resources, WorkerDied, WorkerHandle, WorkerSpec
from games.common import plugins
from games.common.errors import UsageError
from league.config.load import to_toml, validate
from league.lab.sweeps.plan import SweepRun
from league.lab.sweeps.record import Meter
from league.lab.sweeps.training import SweepOutcome, Task, Trained, complete, train_and_ask, trained

MOST_DEATHS = 3  # of processes over one run


class Processes(Protocol):
    """Starts processes that train: a part of ``arena.cluster.interface.Cluster``."""

    def start(self, spec: WorkerSpec, number: int, restarts: int) -> WorkerHandle:
        """Return a starting worker."""
        ...

    def get(self, call: PendingCall) -> Trained:
        """Wait for a call and return its result. Raises WorkerDied, or the call's own exception."""
        ...

    def wait(self, calls: Sequence[PendingCall], timeout: float | None) -> list[PendingCall]:
        """Wait until a call is done; return all that are done."""
        ...


class SweepCluster(Processes, Protocol):
    """A cluster that reports its machines' resources."""

    def nodes(self) -> list[Resources]:
        """Return the resources of each machine that is alive."""
        ...


class RunTrainer:
    """The object in a process that trains a run in the sweep's folder, with output to NAME.log there."""

    def __init__(self, folder: Path, task: Task) -> None:
        self._folder, self._task = folder, task

    def train(self, name: str, settings: str, began: float | None) -> Trained:
        """Train a run, given as TOML, from where it stopped, and ask about it.

        ``began`` is when its process was started, by this machine's monotonic clock; None: on another machine.
        """
        table = tomllib.loads(settings)
        plugins.allow(table.get("plugins", ()))  # as in the process that sends them, which may be on another machine
        run = SweepRun(name, validate(table))
        log = self._folder / f"{name}.log"
        with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
            return train_and_ask(self._folder, run, self._task, Meter(self._folder / name, began, own_process=True))


def run_on_cluster(
    folder: Path, runs: Sequence[SweepRun], task: Task, cluster: SweepCluster, announce: Callable[[str], object]
) -> SweepOutcome:
    """Train incomplete runs, as many at a time as the cluster has room for; ``announce`` is called for each.

    Raises UsageError if the cluster has no room for a run.
    """
    left = [run for run in runs if not complete(folder, run, task)]
    if not left:
        return SweepOutcome(stopped=False, failures={})
    nodes = cluster.nodes()
    need = needed(left, nodes)
    return run_side_by_side(folder, runs, task, cluster, need, room_for(need, nodes), announce, here=False)


def run_side_by_side(
    folder: Path,
    runs: Sequence[SweepRun],
    task: Task,
    processes: Processes,
    need: Resources,
    most: int,
    announce: Callable[[str], object],
    *,
    here: bool = True,
) -> SweepOutcome:
    """Train the runs that are not complete, ``most`` at a time; ``announce`` is called for each.

    If a process dies, its run continues in another. ``here``: the processes are on this machine.
    """
    waiting = deque((number, run) for number, run in enumerate(runs, 1) if not complete(folder, run, task))
    count = min(most, len(waiting))
    if count:
        announce(f"{count} are trained at a time, each in its own process.")
    spec = WorkerSpec("run", RunTrainer, (folder.absolute(), task), need.cpus, need.gpus)
    sweep = _SideBySide(folder, len(runs), task, waiting, processes, spec, announce, here)
    try:
        for number in range(count):
            sweep.begin(number)
        while sweep.calls:
            for call in processes.wait(list(sweep.calls), None):
                sweep.end(call)
    except KeyboardInterrupt:
        return SweepOutcome(stopped=True, failures=sweep.failures)
    finally:
        for handle, _, _ in sweep.calls.values():
            handle.stop()
    return SweepOutcome(stopped=False, failures=sweep.failures)


class _SideBySide:
    """The runs that wait, and those in progress."""

    def __init__(
        self,
        folder: Path,
        total: int,
        task: Task,
        waiting: deque[tuple[int, SweepRun]],
        processes: Processes,
        spec: WorkerSpec,
        announce: Callable[[str], object],
        here: bool,
    ) -> None:
        self._here = here
        self._folder, self._total, self._task, self._waiting = folder, total, task, waiting
        self._processes, self._spec, self._announce = processes, spec, announce
        self._deaths: Counter[str] = Counter()
        self.calls: dict[PendingCall, tuple[WorkerHandle, int, SweepRun]] = {}
        self.failures: dict[str, str] = {}

    def begin(self, slot: int, restarts: int = 0) -> None:
        """Start a process that trains the next run, if one waits."""
        if not self._waiting:
            return
        began = time.monotonic() if self._here else None
        handle = self._processes.start(self._spec, slot, restarts)
        number, run = self._waiting.popleft()
        self._announce(f"Run {number} of {self._total}: {self._folder / run.folder}")
        self.calls[handle.call("train", run.folder, to_toml(run.config), began)] = (handle, number, run)

    def end(self, call: PendingCall) -> None:
        """Take a result, end its process, and start the next run in its place."""
        handle, number, run = self.calls[call]
        restarts = 0
        try:
            outcome = self._processes.get(call)
        except WorkerDied as death:
            restarts = death.worker_id.restarts + 1
            self._deaths[run.folder] += 1
            if self._deaths[run.folder] < MOST_DEATHS:
                self._waiting.appendleft((number, run))
            else:
                self._fail(run, f"{MOST_DEATHS} processes died training it; the last: {death}.")
        else:
            self._record(run, outcome)
        del self.calls[call]
        handle.stop()
        self.begin(call.worker_id.number, restarts)

    def _record(self, run: SweepRun, outcome: Trained) -> None:
        if outcome.failure:
            self._fail(run, outcome.failure)
        elif not trained(self._folder, run, self._task.tokens):
            self._fail(
                run,
                f"It was trained, but is not in {self._folder}. The sweep's folder must be on a disk shared by all "
                "machines of the cluster: name one with --run-dir.",
            )
        else:
            self._announce(f"Done: {self._folder / run.folder}")

    def _fail(self, run: SweepRun, why: str) -> None:
        self.failures[run.folder] = why
        self._announce(f"{run.folder} failed; the others continue. {why}")


def needed(runs: Sequence[SweepRun], nodes: Sequence[Resources]) -> Resources:
    """Return the resources that a process needs to train any run: its threads' cores; all of a machine's for 0."""
    cpus = max((run.config.threads or max(node.cpus for node in nodes)) for run in runs)
    return Resources(
        cpus, float(any(device.startswith(("cuda", "xpu")) for run in runs for device in run.config.devices))
    )


def room_for(need: Resources, nodes: Sequence[Resources]) -> int:
    """Return how many processes the machines have room for. Raises UsageError for none."""
    count = sum(int(min(node.cpus // need.cpus, node.gpus // need.gpus if need.gpus else node.cpus)) for node in nodes)
    if count < 1:
        have = ", ".join(f"{node.cpus:g} cores and {node.gpus:g} GPUs" for node in nodes)
        raise UsageError(
            f"A run of this sweep needs {need.cpus:g} cores (threads) and {need.gpus:g} GPUs (model.device), and no "
            f"machine of the cluster has them: {have}. Set threads lower, or train on another cluster."
        )
    return count
