"""Updates that several processes take together: this one plays and leads, the others wait for updates and follow.

Each holds the policies, whole or (``learner.sharded``) a shard of them, and every update is one of the whole batch
(``learners.team``). What the leader sends are batches, and weights where they were set from outside an update. The
others are started here, one for each GPU, or by ``torchrun``; then `league train` leads where RANK is 0.

With shards the leader has a whole copy of each policy besides, which plays and is saved.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch
import torch.distributed as dist
from pydantic import ConfigDict, TypeAdapter
from torch.distributed.device_mesh import init_device_mesh

from games.errors import UsageError
from league.config import RunConfig
from league.decoupled import LearnerFailed
from league.learner_process import end_with_parent
from league.learning import Learned, learn
from league.population import Population
from league.prepared import cores, prepared_process
from league.run_state import RunState
from league.settings import CONFIG_FILE, load, run_roles
from league.start import reopened_policies
from learners.batching import TrainBatch
from learners.learner import LearningError, Steps, update
from learners.objective import Objective
from learners.policy import Policy
from learners.team import Processes
from learners.trajectories import Trajectory

PATIENCE = timedelta(days=7)  # followers wait while the leader plays, however long that takes
_SPAWN = multiprocessing.get_context("spawn")  # CUDA does not stand a fork


class Task(NamedTuple):
    """An update to be taken together."""

    policy: str
    fresh: bool  # its weights come first: they were set from outside
    batch: TrainBatch
    objective: Objective
    steps: Steps


class _Words(NamedTuple):
    """What the leader says: a task, or None for the end."""

    task: Task | None


_TASKS = TypeAdapter(_Words, config=ConfigDict(ser_json_inf_nan="constants"))


class Meeting(NamedTuple):
    """Where the processes of a run meet, and which of them this is."""

    rank: int
    size: int
    local_rank: int  # on its machine: which GPU is its own
    place: str  # a URL of torch.distributed


def launched() -> Meeting | None:
    """Return the meeting that torchrun arranged, or None where this process was started in another way."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    rank, size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return Meeting(rank, size, local_rank, "env://")


class Followers:
    """The other processes of a run's updates, if it has any; a context manager that starts and ends them."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self._config, self._run_dir = config, run_dir
        self._meeting = launched()
        size = self._meeting.size if self._meeting else config.learner.processes
        if size > 1 and config.decoupled.learners != "none":
            raise UsageError(
                f"learner.processes = {size} lets processes take each update together, and decoupled.learners gives "
                "policies processes of their own: not both on one machine. Set decoupled.learners = 'none', or "
                "learner.processes = 1, or play on a cluster (--cluster), where a learner may have several."
            )
        self._processes: list[BaseProcess] = []
        self._learner: LearnsTogether | None = None

    def __enter__(self) -> Self:
        size = self._config.learner.processes
        if self._meeting is None and size > 1:
            place = f"file://{self._folder.name}/meeting"
            self._meeting = Meeting(0, size, 0, place)
            for rank in range(1, size):
                meeting = Meeting(rank, size, rank, place)
                self._processes.append(_SPAWN.Process(target=_be_follower, args=(meeting,), daemon=True))
                self._processes[-1].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._learner is not None and self._learner.begun and error is None:
            self._learner.end()
        for process in self._processes:
            process.kill()  # they hold nothing that the leader does not
            process.join()
        if self._processes:
            self._folder.cleanup()
        if dist.is_initialized():
            dist.destroy_process_group()

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="league-")

    def learner(self, state: RunState) -> LearnsTogether | None:
        """Return where the loop's trajectories go, if there is anybody to share the updates with."""
        if self._meeting is None or self._meeting.size == 1:
            return None
        self._learner = LearnsTogether(self._config, self._run_dir, state, self._meeting)
        return self._learner


class LearnsTogether:
    """Learning in this process and its followers."""

    ahead = 0

    def __init__(self, config: RunConfig, run_dir: Path, state: RunState, meeting: Meeting) -> None:
        self._config, self._run_dir, self._state, self._meeting = config, run_dir, state, meeting
        self._given: dict[int, Sequence[Trajectory]] = {}
        self._own: dict[str, Policy] = {}  # that take the updates
        self.begun = False
        self._known: dict[str, int] = {}  # how often their weights had been set from outside when last sent

    def begin(self) -> None:
        """Meet the others, and let them open the policies as they were saved."""
        with self._all_there():
            self._team = meet(self._meeting)
            self._team.tell(str(self._run_dir.resolve()))
            self._own = _opened(self._config, self._run_dir, self._team) if self._config.learner.sharded else {}
            self.begun = True

    def give(self, iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Keep them until they are asked for."""
        self._given[iteration] = trajectories

    def take(self, iteration: int) -> Learned:
        """Learn now. Raises LearnerFailed if a process has ended."""
        with self._all_there():
            return learn(self._config, self._state, self._given.pop(iteration), iteration, self._update)

    def end(self) -> None:
        """Let the others go."""
        with self._all_there():
            self._team.tell(_TASKS.dump_json(_Words(None)).decode())

    @contextmanager
    def _all_there(self) -> Iterator[None]:
        """Tell in a sentence where torch.distributed finds a process gone; what other errors say stays as it is."""
        try:
            yield
        except LearningError:
            raise
        except RuntimeError as error:
            raise LearnerFailed(
                f"The processes that take updates together lost one another: {error} Everything up to iteration "
                f"{self._state.iteration} is saved. To go on:\n"
                f"  league train --resume --run-dir {shlex.quote(str(self._run_dir))}"
            ) from error

    def _update(self, policy: Policy, batch: TrainBatch, objective: Objective, steps: Steps) -> dict[str, float]:
        """Take an update together; ``policy`` is the state's."""
        task = Task(policy.name, self._known.get(policy.name) != policy.begun, batch, objective, steps)
        self._team.tell(_TASKS.dump_json(_Words(task)).decode())
        own = self._own.get(policy.name, policy)
        metrics = _take_part(self._config, self._team, own, task, policy)
        if own is not policy:
            policy.take(own.tensors(), "The learner's shards")
        self._known[policy.name] = policy.begun
        return metrics


def follow(meeting: Meeting) -> None:
    """Take part in the updates of a run until it ends."""
    team = meet(meeting)
    run_dir = Path(team.tell(""))
    config = load(str(run_dir / CONFIG_FILE))
    if config.model.device != "cpu":
        model = config.model.model_copy(update={"device": f"cuda:{meeting.local_rank}"})
        config = config.model_copy(update={"model": model})
    with prepared_process(config.threads or max(cores() // meeting.size, 1)):
        policies = _opened(config, run_dir, team)
        while (task := _TASKS.validate_json(team.tell("")).task) is not None:
            policy = policies[task.policy]
            _take_part(config, team, policy, task, policy)
            if policy.sharded:
                policy.tensors()  # the leader puts the shards together
    dist.destroy_process_group()


def _be_follower(meeting: Meeting) -> None:
    """Be a process that this module started; Ctrl-C is for the leader, and with its end this one ends too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    with suppress(LearningError):  # the leader stops at the same one, and tells it
        follow(meeting)


def _take_part(config: RunConfig, team: Processes, own: Policy, task: Task, leader: Policy) -> dict[str, float]:
    """Take an update with what this process holds; ``leader`` is the policy whose weights count in rank 0."""
    if task.fresh:
        tensors = team.hand_out(leader.tensors() if not team.rank else {})
        if team.rank or own is not leader:
            own.take(tensors, "The leader's message")
    metrics = update(own, task.batch, task.objective, task.steps, team)
    if own.updates % config.objective.magnet_every == 0:
        own.refresh_magnet()
    return metrics


def meet(meeting: Meeting) -> Processes:
    """Join the other processes of the meeting; return when all are there."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(meeting.local_rank)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpu else "gloo",
        init_method=meeting.place,
        rank=meeting.rank,
        world_size=meeting.size,
        timeout=PATIENCE,
    )
    return Processes()


def _opened(config: RunConfig, run_dir: Path, team: Processes) -> dict[str, Policy]:
    """Return a run's policies, to be filled; in shards if it is configured so."""
    policies = reopened_policies(config, run_roles(config), run_dir, Population(run_dir / "population"))
    if config.learner.sharded:
        shard_policies(config, policies, team)
    return policies


def shard_policies(config: RunConfig, policies: Mapping[str, Policy], team: Processes) -> None:
    """Cut policies that have not been trained yet up over the processes."""
    mesh = init_device_mesh("cpu" if config.model.device == "cpu" else "cuda", (team.size,))
    for policy in policies.values():
        policy.shard(mesh)
