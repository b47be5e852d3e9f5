"""Learners on a cluster: each is a group of workers that learns from the iterations in order.

After an iteration a learner's workers write everything that it would resume from to a folder on the run's disk, each
its part, and the driver reads only the weights. A checkpoint has the same files under a second name. If a learner dies,
or gives no sign of life for ``cluster.timeout`` seconds, the driver starts a replacement from the folder of the last
iteration that was collected, and submits all later trajectories to it again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from arena.cluster.interface import Cluster, Ref, WorkerDied, WorkerSpec
from arena.cluster.match_pool import START_TIMEOUT
from games.common.files import link
from league.config.context import RunContext
from league.training.backends.learner_group import GroupReply, LearnerGroup, LearnerWorker
from league.training.backends.run_disk import DiskServer, RunDisk
from league.training.backends.weight_transfer import BaseWeights
from league.training.checkpoints.checkpoint import LEARNERS_FOLDER, clear_learners
from league.training.checkpoints.learner_checkpoint import read_learning, write_learning
from league.training.checkpoints.run_state import RunState
from league.training.interfaces import LearnerFailed, LearnResult
from league.training.learning.learner import merge_reports, staleness
from league.training.learning.learner_pool import learner_failed
from league.training.learning.learner_process import learners_of
from learners.trajectories import Evidence, Trajectory
from learners.update.policy import Policy

MAX_DEATHS = 3  # of a learner in one iteration
DISK_CALLS = 8  # pieces that the driver's machine reads or writes at once


class ClusterLearner:
    """A ``Learner`` whose work is done by groups of workers on a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        context: RunContext,
        state: RunState,
        bases: Mapping[str, BaseWeights],
        spec: WorkerSpec,
    ) -> None:
        """``bases`` are by policy. ``spec`` has a worker's resources; its object and arguments are filled in."""
        self.lead = context.config.async_learners.max_staleness
        self._cluster, self._run_dir, self._state = cluster, context.run_dir, state
        self._learners = learners_of(context)
        self._specs = {
            name: spec._replace(
                make=LearnerWorker,
                arguments=(context, {policy: bases[policy] for policy in policies}, spec.cpus, imitated),
            )
            for name, policies in self._learners.items()
            for imitated in [{policy: state.imitated[policy] for policy in policies if policy in state.imitated}]
        }
        self._processes, self._timeout = context.config.optimizer.processes, context.config.cluster.timeout
        self._replaced = 0  # learners that died or fell silent since the last iteration
        self._groups: dict[str, LearnerGroup] = {}
        self._learned: dict[str, Path] = {}  # by learner, the folder of the last iteration that was collected
        self._submitted: dict[int, Sequence[Trajectory]] = {}
        self._batches: dict[int, Ref] = {}  # the same in the object store, with the evidence

    def begin(self) -> None:
        """Start the learners from the run's state. Files that local learner processes left are removed."""
        clear_learners(self._run_dir)
        self._root = self._run_dir.resolve()
        self._serve_disk()
        for number, (name, policies) in enumerate(self._learners.items()):
            self._learned[name] = self._folder(name, self._state.iteration, 0)
            self._write_start(self._learned[name], policies)
            self._start(name, number, 0)

    def _write_start(self, folder: Path, policies: Sequence[str]) -> None:
        """Write what learners start from; weights that were read from a checkpoint are not written again."""
        learned = {name: self._state.policies[name] for name in policies}
        for policy in learned.values():
            if policy.plays and policy.unchanged_file() is not None:
                policy.shards = _OnDisk(policy)
        write_learning(folder, self._state, policies)
        for name, policy in learned.items():
            policy.plays, policy.shards = True, _OnDisk(policy)
            policy.restored = folder / f"{name}.safetensors", policy.resets

    def _serve_disk(self) -> None:
        """Start the process through which others reach the run's disk where they do not see it."""
        spec = WorkerSpec("disk", DiskServer, (self._root,), 0.0, on_driver=True, calls=DISK_CALLS)
        self._server = self._cluster.start(spec, 0, 0)
        self._disk = RunDisk(self._root, self._server.handle).mark(self._root / LEARNERS_FOLDER)

    def _folder(self, name: str, iteration: int, restarts: int) -> Path:
        """Return the folder of what a learner has learned; one that was given up may still be writing to its own."""
        return self._root / LEARNERS_FOLDER / name / f"{iteration:06d}-{restarts}"

    def submit(self, iteration: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> None:
        """Put an iteration's batch into the object store once, and send the reference to all learners."""
        self._submitted[iteration] = trajectories
        self._batches[iteration] = self._cluster.put((list(trajectories), list(evidence)))
        for name, group in self._groups.items():
            self._submit(group, name, iteration)

    def ready(self, iteration: int) -> bool:
        """Return whether all have learned from an iteration, or one has died over it."""
        return all(group.ready_for(iteration) for group in self._groups.values())

    def collect(self, iteration: int) -> LearnResult:
        """Wait until all have learned from an iteration, and load their policies into the run's state."""
        reports = []
        for name in self._groups:
            reply = self._reply(name, iteration)
            reports.append(reply.report)
            read_learning(reply.folder, self._state)
            self._learned[name] = reply.folder
            self._remove_before(name, iteration)
        del self._batches[iteration]
        learned = merge_reports(reports, self._submitted.pop(iteration), staleness(iteration, self.lead))
        if self._replaced:
            learned = learned._replace(metrics=learned.metrics | {"cluster/replaced/learner": float(self._replaced)})
            self._replaced = 0
        return learned

    def recover(self) -> bool:
        """Return False: no process writes a checkpoint while this one saves it."""
        return False

    def close(self) -> None:
        """Stop all learners."""
        for group in self._groups.values():
            group.stop()
        clear_learners(self._run_dir)

    def _start(self, name: str, number: int, restarts: int) -> None:
        spec = self._specs[name]
        spec = spec._replace(arguments=(*spec.arguments, self._disk))
        arguments = (number, restarts, self._learned[name], self._timeout)
        self._groups[name] = LearnerGroup(self._cluster, spec, self._processes, *arguments)

    def _submit(self, group: LearnerGroup, name: str, iteration: int) -> None:
        group.submit(iteration, self._batches[iteration], self._folder(name, iteration, group.restarts))

    def _remove_before(self, name: str, iteration: int) -> None:
        """Remove the folders that no replacement would start from any more."""
        for folder in self._learned[name].parent.iterdir():
            if int(folder.name.partition("-")[0]) <= iteration and folder != self._learned[name]:
                shutil.rmtree(folder, ignore_errors=True)

    def _reply(self, name: str, iteration: int) -> GroupReply:
        """Return a learner's reply for an iteration. A learner that dies is replaced, a bounded number of times."""
        deaths = 0
        while True:
            try:
                self._wait_until_ready(name)
                return self._groups[name].collect(iteration)
            except WorkerDied as death:
                deaths += 1
                if deaths == MAX_DEATHS:
                    how = f"died {MAX_DEATHS} times over iteration {iteration}, the last time because: {death.reason}"
                    raise self._failure(name, how) from death
                if death.worker_id.kind == self._server.worker_id.kind:
                    self._serve_disk()
                self._replace(name)

    def _wait_until_ready(self, name: str) -> None:
        """Wait until all workers of a learner run. Raises LearnerFailed after ``START_TIMEOUT`` without progress."""
        waiting = list(self._groups[name].ready)
        while waiting:
            done = self._cluster.wait(waiting, START_TIMEOUT)
            if not done:
                raise self._failure(name, f"did not fit into the cluster for {START_TIMEOUT:.0f} s")
            waiting = [call for call in waiting if call not in done]

    def _replace(self, name: str) -> None:
        """Restart a learner from its last checkpoint, and submit all later iterations again."""
        old = self._groups[name]
        old.stop()
        self._replaced += 1
        self._start(name, old.number, old.restarts + 1)
        for iteration in sorted(self._batches):
            self._submit(self._groups[name], name, iteration)

    def _failure(self, name: str, how: str) -> LearnerFailed:
        what = f"The process that learns for {name} {how}."
        return learner_failed(what, self._state.iteration, self._run_dir)


class _OnDisk:
    """``Shards`` of a policy that learns on a cluster: what it has learned lies on the run's disk already."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def save(self, path: Path) -> Future[None]:
        """See ``Shards``."""
        learned = self._policy.unchanged_file()
        if learned is None:
            raise RuntimeError(f"The weights of policy {self._policy.name!r} were replaced where it does not learn.")
        link(learned, path)
        saved: Future[None] = Future()
        saved.set_result(None)
        return saved
