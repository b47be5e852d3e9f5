"""The runs of a sweep side by side on a cluster: a process trains one run, then the next that nobody has begun.

Plain tasks, not Ray Tune: nothing is searched or stopped early, and where a run goes on is in its own folder already,
of which Tune would keep a second account.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from arena.cluster.interface import Cluster, PendingCall, Resources, WorkerDied, WorkerHandle, WorkerSpec
from games.common.errors import UsageError
from league.run.sweep import SweepOutcome, SweepRun, Trained, finished, train_or_resume

MOST_DEATHS = 3  # of processes over one run


class SweepCluster(Cluster, Protocol):
    """A cluster that says what its machines have."""

    def nodes(self) -> list[Resources]:
        """Return the resources of each machine that is alive."""
        ...


class RunTrainer:
    """What a process of the cluster holds: it trains runs in the sweep's folder, one after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def train(self, run: SweepRun) -> Trained:
        """Train a run, from where it stopped."""
        return train_or_resume(self._folder, run)


def run_on_cluster(
    folder: Path, runs: Sequence[SweepRun], cluster: SweepCluster, announce: Callable[[str], object]
) -> SweepOutcome:
    """Train the runs that are not complete, as many at a time as the cluster has room for; ``announce`` tells of each.

    A run over which a process dies goes on in another one. Raises UsageError if not one run has room.
    """
    waiting = deque((number, run) for number, run in enumerate(runs, 1) if not finished(folder, run))
    if not waiting:
        return SweepOutcome(stopped=False, failures={})
    nodes = cluster.nodes()
    need = needed([run for _, run in waiting], nodes)
    count = min(room_for(need, nodes), len(waiting))
    announce(f"{count} at a time are trained on the cluster.")
    spec = WorkerSpec("run", RunTrainer, (folder.absolute(),), need.cpus, need.gpus)
    sweep = _SideBySide(folder, len(runs), waiting, cluster, announce)
    try:
        for number in range(count):
            sweep.begin(cluster.start(spec, number, 0))
        while sweep.calls:
            for call in cluster.wait(list(sweep.calls), None):
                sweep.end(call, spec)
    except KeyboardInterrupt:
        return SweepOutcome(stopped=True, failures=sweep.failures)
    finally:
        for handle, _, _ in sweep.calls.values():
            handle.stop()
    return SweepOutcome(stopped=False, failures=sweep.failures)


class _SideBySide:
    """The runs that wait, and those that are under way."""

    def __init__(
        self,
        folder: Path,
        total: int,
        waiting: deque[tuple[int, SweepRun]],
        cluster: Cluster,
        announce: Callable[[str], object],
    ) -> None:
        self._folder, self._total, self._waiting = folder, total, waiting
        self._cluster, self._announce = cluster, announce
        self._deaths: Counter[str] = Counter()
        self.calls: dict[PendingCall, tuple[WorkerHandle, int, SweepRun]] = {}
        self.failures: dict[str, str] = {}

    def begin(self, handle: WorkerHandle) -> None:
        """Let a process train the next run, or end it where none waits."""
        if not self._waiting:
            handle.stop()
            return
        number, run = self._waiting.popleft()
        self._announce(f"Run {number} of {self._total}: {self._folder / run.folder}")
        self.calls[handle.call("train", run)] = (handle, number, run)

    def end(self, call: PendingCall, spec: WorkerSpec) -> None:
        """Take a result, and let its process, or the one that takes the place of a dead one, begin the next run."""
        handle, number, run = self.calls.pop(call)
        try:
            trained = self._cluster.get(call)
        except WorkerDied as death:
            self._deaths[run.folder] += 1
            if self._deaths[run.folder] < MOST_DEATHS:
                self._waiting.appendleft((number, run))
            else:
                self._fail(run, f"{MOST_DEATHS} processes have died over it; the last: {death}.")
            handle = self._cluster.start(spec, death.worker_id.number, death.worker_id.restarts + 1)
        else:
            self._record(run, trained)
        self.begin(handle)

    def _record(self, run: SweepRun, trained: Trained) -> None:
        if trained.failure:
            self._fail(run, trained.failure)
        elif not finished(self._folder, run):
            self._fail(
                run,
                f"It was trained, but is not in {self._folder}. The sweep's folder must be on a disk that all machines "
                "of the cluster share: name one with --run-dir.",
            )
        else:
            self._announce(f"Done: {self._folder / run.folder}")

    def _fail(self, run: SweepRun, why: str) -> None:
        self.failures[run.folder] = why
        self._announce(f"{run.folder} failed; the others go on. {why}")


def needed(runs: Sequence[SweepRun], nodes: Sequence[Resources]) -> Resources:
    """Return what a process needs that can train any of the runs: its threads' cores, all of a machine's for 0."""
    cpus = max((run.config.threads or max(node.cpus for node in nodes)) for run in runs)
    return Resources(cpus, float(any(run.config.model.device.startswith(("cuda", "xpu")) for run in runs)))


def room_for(need: Resources, nodes: Sequence[Resources]) -> int:
    """Return how many processes have room on the machines. Raises UsageError if not one has."""
    count = sum(int(min(node.cpus // need.cpus, node.gpus // need.gpus if need.gpus else node.cpus)) for node in nodes)
    if count < 1:
        have = ", ".join(f"{node.cpus:g} cores and {node.gpus:g} GPUs" for node in nodes)
        raise UsageError(
            f"A run of this sweep needs {need.cpus:g} cores (threads) and {need.gpus:g} GPUs (model.device), and no "
            f"machine of the cluster has them: {have}. Set threads lower, or train on another cluster."
        )
    return count
