"""Learners on a cluster: each is a group of workers that learns from the iterations in order.

After an iteration a learner sends back everything that it would resume from. If it dies, or gives no sign of life for
``cluster.timeout`` seconds, the driver starts a replacement from the last iteration that was collected, and submits all
later trajectories to it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena.cluster.interface import Cluster, Ref, WorkerDied, WorkerSpec
from arena.cluster.match_pool import START_TIMEOUT
from league.config.context import RunContext
from league.training.backends.learner_group import (
    GroupReply,
    LearnerGroup,
    LearnerWorker,
    learning_from_files,
    learning_to_files,
)
from league.training.backends.weight_transfer import BaseWeights
from league.training.checkpoints.checkpoint import clear_learners
from league.training.checkpoints.run_state import RunState
from league.training.interfaces import LearnerFailed, LearnResult
from league.training.learning.learner import merge_reports, staleness
from league.training.learning.learner_pool import learner_failed
from league.training.learning.learner_process import learners_of
from learners.trajectories import Evidence, Trajectory

MAX_DEATHS = 3  # of a learner in one iteration


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
        self._checkpoints: dict[str, Ref] = {}  # by learner, after the last iteration that was collected
        self._submitted: dict[int, Sequence[Trajectory]] = {}
        self._batches: dict[int, Ref] = {}  # the same in the object store, with the evidence

    def begin(self) -> None:
        """Start the learners from the run's state. Files that local learner processes left are removed."""
        clear_learners(self._run_dir)
        for number, (name, policies) in enumerate(self._learners.items()):
            self._checkpoints[name] = self._cluster.put(learning_to_files(self._state, policies))
            self._start(name, number, 0)

    def submit(self, iteration: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> None:
        """Put an iteration's batch into the object store once, and send the reference to all learners."""
        self._submitted[iteration] = trajectories
        self._batches[iteration] = self._cluster.put((list(trajectories), list(evidence)))
        for group in self._groups.values():
            group.submit(iteration, self._batches[iteration])

    def ready(self, iteration: int) -> bool:
        """Return whether all have learned from an iteration, or one has died over it."""
        return all(group.ready_for(iteration) for group in self._groups.values())

    def collect(self, iteration: int) -> LearnResult:
        """Wait until all have learned from an iteration, and load their policies into the run's state."""
        reports = []
        for name in self._groups:
            reply = self._reply(name, iteration)
            reports.append(reply.report)
            self._checkpoints[name] = self._cluster.put(reply.files)
            learning_from_files(reply.files, self._state)
        del self._batches[iteration]
        learned = merge_reports(reports, self._submitted.pop(iteration), staleness(iteration, self.lead))
        if self._replaced:
            learned = learned._replace(metrics=learned.metrics | {"cluster/replaced/learner": float(self._replaced)})
            self._replaced = 0
        return learned

    def close(self) -> None:
        """Stop all learners."""
        for group in self._groups.values():
            group.stop()

    def _start(self, name: str, number: int, restarts: int) -> None:
        arguments = (number, restarts, self._checkpoints[name], self._timeout)
        self._groups[name] = LearnerGroup(self._cluster, self._specs[name], self._processes, *arguments)

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
            self._groups[name].submit(iteration, self._batches[iteration])

    def _failure(self, name: str, how: str) -> LearnerFailed:
        what = f"The process that learns for {name} {how}."
        return learner_failed(what, self._state.iteration, self._run_dir)
