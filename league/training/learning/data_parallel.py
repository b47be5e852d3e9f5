"""Updates that several processes make together: rank 0 plays and leads, and the followers wait for updates.

Each process holds the policies, complete or (``optimizer.sharded``) a shard of them, and every update uses the complete
batch (``learners.parallel.process_group``). The leader broadcasts batches, and weights that were set outside an update.
Followers are started here, one for each GPU, or by ``torchrun``; then `league train` leads where RANK is 0.

With shards the leader also has a complete copy of each policy's weights, which plays. No process has more of what is
learned than its shard: after an update the weights alone travel, tensor by tensor, and of a checkpoint each process
writes and reads its part, beside training.

A follower that dies or hangs takes the update with it, or the checkpoint that is being written. Those started here are
then ended and replaced, and what was learned since the newest whole checkpoint is learned again.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from itertools import count
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from arena.process import available_threads, tuned_process
from games.common.child_processes import child_process
from games.common.errors import UsageError
from league.config import RunConfig
from league.config.context import RunContext, run_context
from league.config.load import load_run_config
from league.training.checkpoints.checkpoint import (
    finish_checkpoint,
    finished_iterations,
    has_checkpoint,
    restore_learning,
)
from league.training.checkpoints.run_state import RunState
from league.training.interfaces import LearnerLost, LearnResult
from league.training.learning.heartbeat import Heartbeat, Watch
from league.training.learning.learner import learn
from league.training.learning.learner_pool import FORK, MAX_DEATHS, SPAWN, learner_failed
from league.training.learning.policies import policies_for_resume
from learners.batching import TrainBatch
from learners.losses.objective import Objective
from learners.parallel.process_group import TorchProcessGroup
from learners.parallel.saved_shards import PartWriter
from learners.trajectories import Evidence, Trajectory
from learners.update.learner import LearningError, StepSettings, update
from learners.update.policy import PLAYED, Policy

TIMEOUT = timedelta(days=7)  # followers wait while the leader plays, no matter how long
# A forked process has imported everything already, which takes seconds of a processor. CUDA does not survive a fork.
_FIRST = SPAWN if torch.cuda.is_available() else FORK


class UpdateTask(NamedTuple):
    """An update for all processes to take."""

    policy: str
    new_weights: bool  # they were set outside an update, so they are broadcast first
    batch: TrainBatch
    objective: Objective
    steps: StepSettings


class GatherTask(NamedTuple):
    """The state of a policy that all processes with shards gather, tensor by tensor, for the leader."""

    policy: str
    parts: tuple[str, ...]  # (): all


class SaveTask(NamedTuple):
    """The state of a policy, of which all processes with shards write their parts to a folder."""

    policy: str
    new_weights: bool  # as in ``UpdateTask``
    folder: Path


class LoadTask(NamedTuple):
    """The state of a policy, whose parts in a folder all processes with shards read."""

    policy: str
    folder: Path


Task = UpdateTask | GatherTask | SaveTask | LoadTask


class Rendezvous(NamedTuple):
    """How a process joins its process group (``torch.distributed.init_process_group``)."""

    rank: int
    size: int
    local_rank: int  # on its machine: the index of its GPU
    init_method: str  # a URL


def torchrun_rendezvous() -> Rendezvous | None:
    """Return the rendezvous that torchrun arranged, or None if torchrun did not start this process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    rank, size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return Rendezvous(rank, size, local_rank, "env://")


class FollowerProcesses:
    """The followers of a run's updates, if it has any; a context manager that starts and stops them."""

    def __init__(self, context: RunContext) -> None:
        self._context, config = context, context.config
        self._rendezvous = torchrun_rendezvous()
        size = self._rendezvous.size if self._rendezvous else config.optimizer.processes
        if size > 1 and config.async_learners.processes != "none":
            raise UsageError(
                f"optimizer.processes = {size} lets processes make each update together, and async_learners.processes "
                "gives policies their own processes: they cannot be combined on one machine. Set "
                "async_learners.processes = 'none', or optimizer.processes = 1, or play on a cluster (--cluster), "
                "where a learner may have several."
            )
        self._processes: list[BaseProcess] = []
        self._learner: DataParallelLearner | None = None
        self._meetings = count()
        self.watch = Watch()

    def __enter__(self) -> Self:
        if self._rendezvous is None and self._context.config.optimizer.processes > 1:
            self._rendezvous = self._start(_FIRST)
        return self

    def _start(self, context: BaseContext) -> Rendezvous:
        """Start the followers; return the leader's rendezvous with them."""
        size = self._context.config.optimizer.processes
        init_method = f"file://{self._folder.name}/meeting-{next(self._meetings)}"
        for rank in range(1, size):
            rendezvous = Rendezvous(rank, size, rank, init_method)
            heartbeat = Heartbeat(context)
            self._processes.append(child_process(context, __name__, "follower_main", heartbeat, *rendezvous))
            self._processes[-1].start()
            self.watch.add(self._processes[-1], heartbeat)
        return Rendezvous(0, size, 0, init_method)

    def restart(self) -> Rendezvous | None:
        """End the followers and start new ones; return the rendezvous with them. None: they were not started here."""
        if not self._processes:
            return None
        self._kill()
        self.watch = Watch()
        rendezvous = self._start(SPAWN)  # by now this process has threads
        self.watch.start()
        return rendezvous

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()  # they hold nothing that the leader lacks
            process.join()
        self._processes.clear()
        if dist.is_initialized():
            dist.destroy_process_group()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._learner is not None and self._learner.started and error is None:
            self._learner.end()
        started = bool(self._processes)
        self._kill()
        if started:
            self._folder.cleanup()

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="league-")

    def learner(self, state: RunState) -> DataParallelLearner | None:
        """Return the learner of a run with followers, else None."""
        if self._rendezvous is None or self._rendezvous.size == 1:
            return None
        self.watch.start()
        self._learner = DataParallelLearner(self._context, state, self._rendezvous, self)
        return self._learner


class DataParallelLearner:
    """Learns in this process and its followers."""

    lead = 0

    def __init__(
        self, context: RunContext, state: RunState, rendezvous: Rendezvous, followers: FollowerProcesses
    ) -> None:
        self._context, self._config, self._run_dir = context, context.config, context.run_dir
        self._state, self._rendezvous, self._followers = state, rendezvous, followers
        self._submitted: dict[int, tuple[Sequence[Trajectory], Sequence[Evidence]]] = {}  # since a whole checkpoint
        self._learned = state.iteration  # the last iteration that the policies have learned from
        self._left: dict[str, int] = {}  # each policy's ``resets`` after it
        self._sharded: dict[str, Policy] = {}  # the shards that take the updates, where there are shards
        self.started = False
        self._sent_resets: dict[str, int] = {}  # ``Policy.resets`` when its weights were last broadcast

    def begin(self) -> None:
        """Join the followers, and let them open the saved policies."""
        with self._lost_process_fails():
            self._process_group = join_process_group(self._rendezvous)
            self._process_group.broadcast_text(str(self._run_dir.resolve()))
            self._writer = PartWriter()
            if self._config.optimizer.sharded:
                self._sharded = _open_policies(self._context, self._process_group)
                for name, policy in self._state.policies.items():
                    policy.plays, policy.shards = True, _LedShards(self, policy, self._sharded[name])
            self.started = True

    def submit(self, iteration: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> None:
        """Keep them until a whole checkpoint has what was learned from them."""
        self._submitted[iteration] = trajectories, evidence

    def ready(self, iteration: int) -> bool:
        """Return True: this process learns."""
        return True

    def collect(self, iteration: int) -> LearnResult:
        """Learn from the iteration now; where a process is lost, replace all, and learn from it again.

        Raises LearnerLost if that cannot be done, or has not helped.
        """
        saved, losses = finished_iterations(self._run_dir), 0
        self._submitted = {number: batch for number, batch in self._submitted.items() if number > saved}
        if self._left and self._left != self._resets():  # what replaced weights in between cannot be done again
            self._submitted = {iteration: self._submitted[iteration]}
        while True:
            try:
                learned = self._learn_until(iteration)
            except LearnerLost:
                losses += 1
                if losses == MAX_DEATHS or not self._replace(iteration):
                    raise
            else:
                return learned._replace(metrics=learned.metrics | {"learners/replaced": losses}) if losses else learned

    def recover(self) -> bool:
        """See ``Learner``."""
        iteration = self._state.iteration
        if self._left != self._resets() or not self._replace(iteration):
            return False
        if self._learned < iteration:
            self._learn_until(iteration)
        return True

    def _learn_until(self, iteration: int) -> LearnResult:
        """Learn from all iterations up to one, of which the policies have not learned; return the last one's result."""
        for number in range(self._learned + 1, iteration + 1):
            with self._lost_process_fails():
                learned = learn(self._config, self._state, *self._submitted[number], number, self._update)
            self._learned = number
        self._left = self._resets()
        return learned

    def _resets(self) -> dict[str, int]:
        return {name: policy.resets for name, policy in self._state.policies.items()}

    def _replace(self, iteration: int) -> bool:
        """Replace the followers, and go back to the newest checkpoint.

        False if there is none from which ``iteration`` can be learned again, or the followers are others'.
        """
        with suppress(OSError, RuntimeError):  # then that checkpoint is not there
            finish_checkpoint(self._state)
        saved = finished_iterations(self._run_dir)
        if not set(range(saved + 1, iteration + 1)) <= self._submitted.keys() or not has_checkpoint(self._run_dir):
            return False
        rendezvous = self._followers.restart()
        if rendezvous is None:
            return False
        restore_learning(self._run_dir, self._state)
        self._learned, self._left = saved, {}
        self._rendezvous = rendezvous
        self._sent_resets.clear()
        self.begin()
        return True

    def end(self) -> None:
        """Let the followers end."""
        with self._lost_process_fails():
            send_task(self._process_group, None)

    @contextmanager
    def _lost_process_fails(self) -> Iterator[None]:
        """Raise LearnerFailed where torch.distributed loses a process; other errors stay as they are."""
        try:
            yield
        except (LearningError, LearnerLost):
            raise
        except RuntimeError as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> LearnerLost:
        what = f"The processes that take updates together lost contact with one another: {error}"
        saved = finished_iterations(self._run_dir)
        return learner_failed(" ".join([*self._followers.watch.killed, what]), saved, self._run_dir)

    def _update(self, policy: Policy, batch: TrainBatch, objective: Objective, steps: StepSettings) -> dict[str, float]:
        """Take an update with all processes; ``policy`` is the run state's."""
        sharded = self._sharded.get(policy.name, policy)
        if sharded is not policy:
            self._read_parts(policy, sharded)
        new_weights = not self.shards_are_new(policy)
        task = UpdateTask(policy.name, new_weights, batch, objective, steps)
        send_task(self._process_group, task)
        metrics = _run_task(self._config, self._process_group, sharded, task, policy)
        if sharded is not policy:
            policy.load_stream(self.gathered(sharded, PLAYED), "The learner's shards", PLAYED)
        self._sent_resets[policy.name] = policy.resets
        return metrics

    def shards_are_new(self, policy: Policy) -> bool:
        """Return whether all processes have a policy's present weights."""
        return self._sent_resets.get(policy.name) == policy.resets

    def _read_parts(self, policy: Policy, sharded: Policy) -> None:
        """Let all shards read their parts of the folder that a policy was restored from, if it has not changed."""
        folder = policy.unchanged_file()
        if self.shards_are_new(policy) or folder is None or not folder.is_dir():
            return
        send_task(self._process_group, LoadTask(policy.name, folder.resolve()))
        sharded.restore(folder)
        self._sent_resets[policy.name] = policy.resets

    def save_parts(self, policy: Policy, sharded: Policy, folder: Path) -> Future[None]:
        """Let all shards write their parts to a folder, beside training; LearnerLost where a process is lost."""
        with self._lost_process_fails():
            self._read_parts(policy, sharded)
            new_weights = not self.shards_are_new(policy)
            critic = policy.critic.tensors() if policy.critic is not None else {}
            its_own = {f"critic/{name}": tensor for name, tensor in critic.items()}
            send_task(self._process_group, SaveTask(policy.name, new_weights, folder.resolve()))
            if new_weights:
                _send_weights(self._process_group, sharded, policy)
                self._sent_resets[policy.name] = policy.resets
            writing = self._writer.begin(policy.name, folder, sharded.held() | its_own)
        written: Future[None] = Future()

        def tell(done: Future[None]) -> None:
            error = done.exception()
            if isinstance(error, RuntimeError):  # of the messages between processes, not of one's own writing
                error = self._lost(error)
            written.set_result(None) if error is None else written.set_exception(error)

        writing.add_done_callback(tell)
        return written

    def gathered(self, sharded: Policy, parts: tuple[str, ...] = ()) -> Iterator[tuple[str, Tensor]]:
        """Yield a policy's state from all shards. Take all of it, or the processes are out of step."""
        send_task(self._process_group, GatherTask(sharded.name, parts))
        yield from sharded.streamed(parts)


class _LedShards:
    """``Shards`` of a policy of the run's state, which its learner leads."""

    def __init__(self, learner: DataParallelLearner, policy: Policy, sharded: Policy) -> None:
        self._learner, self._policy, self._sharded = learner, policy, sharded

    def save(self, path: Path) -> Future[None]:
        """See ``Shards``."""
        return self._learner.save_parts(self._policy, self._sharded, path)


def run_follower(rendezvous: Rendezvous) -> None:
    """Take part in a run's updates until it ends."""
    process_group = join_process_group(rendezvous)
    run_dir = Path(process_group.broadcast_text(""))
    config = load_run_config(run_dir)
    config = config.on_devices(lambda device: device if device == "cpu" else f"cuda:{rendezvous.local_rank}")
    with tuned_process(config.threads or max(available_threads() // rendezvous.size, 1)):
        policies = _open_policies(run_context(config, run_dir), process_group)
        follow(config, process_group, policies)
    dist.destroy_process_group()


def send_task(process_group: TorchProcessGroup, task: Task | None) -> None:
    """Let all others of the group take part in a task, or (None) end."""
    process_group.broadcast_bytes(pickle.dumps(task))


def follow(config: RunConfig, process_group: TorchProcessGroup, policies: Mapping[str, Policy]) -> None:
    """Take part in the tasks that the leader sends, until it sends the end."""
    writer = PartWriter()
    while True:
        task: Task | None = pickle.loads(process_group.broadcast_bytes(b""))  # noqa: S301  # of the same run
        if task is None:
            writer.finish()
            return
        policy = policies[task.policy]
        if isinstance(task, UpdateTask):
            _run_task(config, process_group, policy, task, policy)
        elif isinstance(task, SaveTask):
            if task.new_weights:
                _send_weights(process_group, policy, policy)
            writer.begin(policy.name, task.folder, policy.held())
        elif isinstance(task, LoadTask):
            policy.restore(task.folder)
        else:
            for _ in policy.streamed(task.parts):
                pass


def lead(
    config: RunConfig,
    process_group: TorchProcessGroup,
    policy: Policy,
    batch: TrainBatch,
    objective: Objective,
    steps: StepSettings,
) -> dict[str, float]:
    """Take an update with those that ``follow``, whose policies have the same weights."""
    task = UpdateTask(policy.name, False, batch, objective, steps)
    send_task(process_group, task)
    return _run_task(config, process_group, policy, task, policy)


def follower_main(heartbeat: Heartbeat, rank: int, size: int, local_rank: int, init_method: str) -> None:
    """Run a follower that this module started, as a ``child_process``, which ends with the leader."""
    heartbeat.start()
    with suppress(LearningError):  # the leader raises the same error
        run_follower(Rendezvous(rank, size, local_rank, init_method))


def _run_task(
    config: RunConfig, process_group: TorchProcessGroup, policy: Policy, task: UpdateTask, source: Policy
) -> dict[str, float]:
    """Update this process's policy or shard; rank 0's ``source`` has the weights to broadcast."""
    if task.new_weights:
        _send_weights(process_group, policy, source)
    metrics = update(policy, task.batch, task.objective, task.steps, process_group)
    if policy.updates % config.objective.magnet_every == 0:
        policy.refresh_magnet()
    return metrics


def _send_weights(process_group: TorchProcessGroup, policy: Policy, source: Policy) -> None:
    """Give all processes' ``policy`` the state of rank 0's ``source``, one tensor at a time."""
    tensors = process_group.broadcast_tensors(() if process_group.rank else source.saved_state())
    if process_group.rank or policy is not source:
        policy.load_stream(tensors, "The leader's message")
    else:
        for _ in tensors:  # which others wait for
            pass


def join_process_group(rendezvous: Rendezvous) -> TorchProcessGroup:
    """Join the other processes; return when all have joined."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(rendezvous.local_rank)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpu else "gloo",
        init_method=rendezvous.init_method,
        rank=rendezvous.rank,
        world_size=rendezvous.size,
        timeout=TIMEOUT,
    )
    return TorchProcessGroup()


def _open_policies(context: RunContext, process_group: TorchProcessGroup) -> dict[str, Policy]:
    """Return a run's policies, sharded if so configured; their weights come with the first task."""
    policies = policies_for_resume(context, empty=context.config.optimizer.sharded)
    if context.config.optimizer.sharded:
        shard_policies(context.config, policies, process_group)
    return policies


def shard_policies(config: RunConfig, policies: Mapping[str, Policy], process_group: TorchProcessGroup) -> None:
    """Shard policies over the processes; none of them has been updated yet."""
    meshes: dict[str, DeviceMesh] = {}
    for name, policy in policies.items():
        kind = "cpu" if config.model_of(name).device == "cpu" else "cuda"
        if kind not in meshes:
            meshes[kind] = init_device_mesh(kind, (process_group.size,))
        policy.shard(meshes[kind])
