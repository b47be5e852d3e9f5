"""One learner on a cluster: one worker, or several that take every update together, each with a share of its rows.

Rank 0 gets an iteration's trajectories, credits them and packs the batches, which it sends to the others; all take the
same steps (``learners.parallel.process_group``), so each has the result, and rank 0 writes it to the run's disk
(``run_disk``). Where policies are sharded, all get the trajectories, since what is computed with the policies before an
update takes every rank, and each writes its part. If a worker dies or falls silent, its whole group is restarted.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from arena.cluster.interface import Cluster, PendingCall, Ref, WorkerDied, WorkerSpec
from arena.cluster.ray_cluster import fetch, node_address
from arena.cluster.signs_of_life import SignsOfLife
from arena.flops import COUNTED
from arena.process import tuned_process
from league.config.context import RunContext
from league.training.backends.engine_worker import base_folder
from league.training.backends.run_disk import RunDisk, bytes_below
from league.training.backends.weight_transfer import BaseWeights
from league.training.checkpoints.learner_checkpoint import LearningState, read_learning, write_learning
from league.training.learning.data_parallel import (
    Rendezvous,
    follow,
    join_process_group,
    lead,
    send_task,
    shard_policies,
)
from league.training.learning.iteration import Update
from league.training.learning.learner import LearnerReport, learn_subset
from league.training.learning.policies import policies_on_bases
from learners.losses.term import ImitatedReply
from learners.parallel.process_group import SINGLE_PROCESS, ProcessGroup, TorchProcessGroup
from learners.parallel.saved_shards import PartWriter
from learners.update.learner import update
from learners.update.policy import Policy

DEATH_NOTICE = 10.0  # seconds within which the cluster reports which worker of a failed group is dead


class GroupReply(NamedTuple):
    """A group's reply for an iteration."""

    report: LearnerReport
    folder: Path  # of what it has learned (``write_learning``), on the run's disk


class LearnerWorker:
    """The object in a learner's process."""

    def __init__(
        self,
        context: RunContext,
        bases: Mapping[str, BaseWeights],
        cpus: float,
        imitated: Mapping[str, Sequence[ImitatedReply]],
        disk: RunDisk,
    ) -> None:
        """``bases`` are the bases of the policies that learn here, by policy."""
        ExitStack().enter_context(tuned_process(max(int(cpus), 1)))  # for as long as the process lives
        self._config, self._policies = context.config, tuple(bases)
        with tempfile.TemporaryDirectory() as folder:
            folders = {name: base_folder(base, Path(folder) / name) for name, base in bases.items()}
            self._state = LearningState(policies_on_bases(context, folders), imitated=imitated)
        self._process_group: ProcessGroup = SINGLE_PROCESS
        self._rank, self._disk = 0, disk
        self._writes: Path | None = None  # the folder of what it has learned, while it is written

    @property
    def progress(self) -> float | None:
        """What rank 0's passes have cost, and what was written: they stand still where it spins, or waits for one that
        does.

        None for other ranks, which wait while rank 0 gives credit.
        """
        if self._rank:
            return None
        written = bytes_below(self._writes) if self._writes is not None else 0
        return COUNTED.total + self._disk.moved + written

    def init_method(self) -> str:
        """Return a URL on this machine at which the group's processes can find one another."""
        host = node_address()
        with socket.create_server((host, 0)) as free:
            return f"tcp://{host}:{free.getsockname()[1]}"

    def join(self, init_method: str, rank: int, size: int) -> None:
        """Join the process group, and shard the policies over it if they are configured so."""
        # Ray shows this process only its own GPUs, hence local rank 0
        self._process_group = processes = join_process_group(Rendezvous(rank, size, 0, init_method))
        self._rank = rank
        if self._config.optimizer.sharded:
            shard_policies(self._config, self._state.policies, processes)
            writer = PartWriter()
            for policy in self._state.policies.values():
                policy.shards = _OwnShards(writer, policy, rank)

    def begin(self, folder: Path) -> None:
        """Start from what was learned until now, in a folder on the run's disk."""
        with self._disk.read(folder) as here:
            read_learning(here, self._state)

    def learn(self, iteration: int, batch: tuple[Ref], folder: Path) -> GroupReply | None:
        """Learn from an iteration, whose trajectories and evidence are in the object store, and write to a folder.

        Only rank 0 returns the result. Raises as ``learners.update.learner.update``.
        """
        group, sharded = self._process_group, self._config.optimizer.sharded
        if isinstance(group, TorchProcessGroup) and not sharded:
            if self._rank:
                follow(self._config, group, self._state.policies)
                return None
            group_update: Update = partial(lead, self._config, group)
        else:
            group_update = partial(update, process_group=group)
        trajectories, evidence = fetch(batch[0])
        report = learn_subset(self._config, self._state, trajectories, evidence, iteration, group_update)
        if isinstance(group, TorchProcessGroup) and not sharded:
            send_task(group, None)
        with self._disk.written(folder) as self._writes:
            write_learning(self._writes, self._state, self._policies, leads=self._rank == 0)
        self._writes = None
        return None if self._rank else GroupReply(report, folder)


class _OwnShards:
    """``Shards`` of a policy of which every process of a group writes its own part, all at the same time."""

    def __init__(self, writer: PartWriter, policy: Policy, rank: int) -> None:
        self._writer, self._policy, self._rank = writer, policy, rank

    def save(self, path: Path) -> Future[None]:
        """See ``Shards``."""
        critic = self._policy.critic.tensors() if self._policy.critic is not None and self._rank == 0 else {}
        its_own = {f"critic/{name}": tensor for name, tensor in critic.items()}
        return self._writer.begin(self._policy.name, path, self._policy.held() | its_own)


class LearnerGroup:
    """The workers of one learner, as the driver sees them."""

    def __init__(
        self, cluster: Cluster, spec: WorkerSpec, size: int, number: int, restarts: int, start: Path, timeout: float
    ) -> None:
        """Start ``size`` workers of learner ``number`` from a folder, after this many restarts of the learner.

        One that has work and gives no sign of life for ``timeout`` seconds counts as dead.
        """
        self._cluster, self.number, self.restarts = cluster, number, restarts
        self._workers = [cluster.start(spec, number * size + rank, restarts) for rank in range(size)]
        self._signs = SignsOfLife(cluster, timeout)
        self._silent: WorkerDied | None = None
        self._placed = False  # until then it waits for the cluster, and not for its own work
        self.ready = [worker.call("ready") for worker in self._workers]
        self._starting: list[PendingCall] = []
        if size > 1:
            init_method = self._workers[0].call("init_method")
            self._starting += [
                worker.call("join", init_method.ref, rank, size) for rank, worker in enumerate(self._workers)
            ]
        self._starting += [worker.call("begin", start) for worker in self._workers]
        self._calls: dict[int, list[PendingCall]] = {}  # of ``learn``, by iteration

    def submit(self, iteration: int, batch: Ref, folder: Path) -> None:
        """Let the workers learn from an iteration after the ones submitted before, and write to a folder."""
        self._calls[iteration] = [worker.call("learn", iteration, (batch,), folder) for worker in self._workers]
        for worker in self._workers:
            self._signs.expect(worker)

    def ready_for(self, iteration: int) -> bool:
        """Return whether the calls for an iteration are over, or a worker is silent."""
        calls = self._calls[iteration]
        return self._silent is not None or len(self._wait(calls, 0.0)) == len(calls)

    def collect(self, iteration: int) -> GroupReply:
        """Wait for all workers; return rank 0's reply. Raises WorkerDied, or the error within a worker as it is."""
        waiting = [*self._starting, *self._calls[iteration]]  # an error at the start is raised nowhere else
        rank_0 = self._calls[iteration][0]
        replies: list[GroupReply] = []
        while waiting:
            done = self._wait(waiting, self._signs.interval)
            if self._silent is not None:
                raise self._silent
            for call in done:
                waiting.remove(call)
                reply = self._get(call)
                replies += [reply] if call == rank_0 else []
        self._starting = []
        del self._calls[iteration]
        return replies[0]

    def _wait(self, calls: Sequence[PendingCall], seconds: float) -> list[PendingCall]:
        """Return which of the calls are done, after ``seconds`` at most; note a worker that is silent.

        It may return none before, because signs of life are waited for, too.
        """
        if not self._placed and len(self._cluster.wait(self.ready, 0.0)) == len(self.ready):
            self._placed = True
            for worker, call in zip(self._workers, self.ready, strict=True):
                with suppress(WorkerDied):  # its work's call says so, too
                    worker.place = self._cluster.get(call)
                self._signs.expect(worker)
        answered = self._cluster.wait([*calls, *self._signs.calls], seconds)
        busy = [worker.worker_id for worker in self._workers if self._placed and self._calls]
        if lost := self._signs.silent(answered, busy):
            self._silent = WorkerDied(lost[0], f"it gave no sign of life for {self._signs.timeout:g} s")
        return [call for call in answered if call in calls]

    def stop(self) -> None:
        """Stop all workers."""
        for worker in self._workers:
            worker.stop()

    def _get(self, call: PendingCall) -> GroupReply:
        """Return a call's result. Where a worker dies, others may fail before the cluster reports its death."""
        try:
            reply: GroupReply = self._cluster.get(call)
        except RuntimeError as error:
            if not isinstance(error, WorkerDied) and len(self._workers) > 1:
                self._raise_deaths()
            raise
        return reply

    def _raise_deaths(self) -> None:
        """Raise WorkerDied if a worker is dead."""
        waiting = [worker.call("ready") for worker in self._workers]
        while waiting and (done := self._cluster.wait(waiting, DEATH_NOTICE)):
            for call in done:
                waiting.remove(call)
                self._cluster.get(call)
