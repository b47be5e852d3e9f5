"""Learners on a cluster: each an actor with some of the policies, which learns from one iteration after the other.

What a learner is after an iteration comes back whole, so the process that steers the run can begin it anew elsewhere
if it dies: from the last iteration that was taken, with the trajectories that were given since.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from arena.cluster import Call, Cluster, Died, Member, Post, Ref
from arena.pool import PATIENCE
from league.cluster_host import base_folder
from league.config import RunConfig
from league.decoupled import LearnerFailed
from league.learner_process import learners_of
from league.learning import Learned, Report, joined, learn_own, staleness
from league.learning_state import LearningState, load_learning, save_learning
from league.parcels import Base, Files, read_files, write_files
from league.prepared import prepared_process
from league.run_state import RunState, forget_learners
from league.settings import run_roles
from league.start import policies_on
from learners.trajectories import Trajectory

MOST_DEATHS = 3  # over one iteration's learning


class Answer(NamedTuple):
    """What a learner gives back for an iteration."""

    report: Report
    saved: Files  # what ``save_learning`` writes of it


class LearnerHost:
    """What stands in a learner's process."""

    def __init__(self, config: RunConfig, names: tuple[str, ...], base: Base, cpus: float) -> None:
        ExitStack().enter_context(prepared_process(max(int(cpus), 1)))  # for as long as the process lives
        self._config, self._names = config, names
        with tempfile.TemporaryDirectory() as folder:
            policies = policies_on(config, run_roles(config), base_folder(base, Path(folder)), names)
        self._state = LearningState(policies)

    def begin(self, saved: Files) -> None:
        """Go on from what was saved."""
        with tempfile.TemporaryDirectory() as folder:
            load_learning(write_files(saved, Path(folder)), self._state)

    def learn(self, iteration: int, trajectories: Sequence[Trajectory]) -> Answer:
        """Learn from an iteration. Raises LearningError as ``learners.learner.update``."""
        report = learn_own(self._config, self._state, trajectories, iteration)
        return Answer(report, saved_learning(self._state, self._names))


class _Hired(NamedTuple):
    """A learner that has been told where to begin."""

    member: Member
    there: Call  # done when its process is there
    begun: Call


class LearnsOnCluster:
    """A ``Learner`` whose work is done by members of a cluster."""

    def __init__(
        self, cluster: Cluster, config: RunConfig, run_dir: Path, state: RunState, base: Base, post: Post
    ) -> None:
        """``post`` says what each takes of the cluster; who it is, is filled in."""
        self.ahead = config.decoupled.max_staleness
        self._cluster, self._run_dir, self._state = cluster, run_dir, state
        self._names = learners_of(config)
        self._posts = {
            name: post._replace(make=LearnerHost, arguments=(config, own, base, post.cpus))
            for name, own in self._names.items()
        }
        self._members: dict[str, _Hired] = {}
        self._saved: dict[str, Ref] = {}  # by learner, after the last iteration that was taken
        self._given: dict[int, Sequence[Trajectory]] = {}
        self._sent: dict[int, Ref] = {}  # the same in the cluster
        self._calls: dict[tuple[str, int], Call] = {}  # by learner and iteration

    def begin(self) -> None:
        """Start the learners from the run's state; what processes of this machine left is of no use any more."""
        forget_learners(self._run_dir)
        for number, (name, own) in enumerate(self._names.items()):
            self._saved[name] = self._cluster.put(saved_learning(self._state, own))
            self._hire(name, number, 0)

    def give(self, iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Send them to all; they lie in the cluster's store once."""
        self._given[iteration] = trajectories
        self._sent[iteration] = self._cluster.put(list(trajectories))
        for name in self._members:
            self._ask(name, iteration)

    def take(self, iteration: int) -> Learned:
        """Wait until all have learned from an iteration, and bring what they learned into the run's state."""
        reports = []
        for name in self._members:
            answer = self._answer(name, iteration)
            reports.append(answer.report)
            self._saved[name] = self._cluster.put(answer.saved)
            with tempfile.TemporaryDirectory() as folder:
                load_learning(write_files(answer.saved, Path(folder)), self._state)
        del self._sent[iteration]
        return joined(reports, self._given.pop(iteration), staleness(iteration, self.ahead))

    def close(self) -> None:
        """End them."""
        for hired in self._members.values():
            hired.member.dismiss()

    def _hire(self, name: str, number: int, term: int) -> None:
        member = self._cluster.hire(self._posts[name], number, term)
        self._members[name] = _Hired(member, member.call("there"), member.call("begin", self._saved[name]))

    def _ask(self, name: str, iteration: int) -> None:
        self._calls[name, iteration] = self._members[name].member.call("learn", iteration, self._sent[iteration])

    def _answer(self, name: str, iteration: int) -> Answer:
        """Return what a learner gives back; one that dies is replaced, a bounded number of times."""
        deaths = 0
        while True:
            hired = self._members[name]
            if not self._cluster.done([hired.there], PATIENCE):
                raise LearnerFailed(self._stopped(name, f"found no place in the cluster for {PATIENCE:.0f} s"))
            try:
                self._cluster.get(hired.begun)  # what is wrong with its beginning is told by nothing else
                answer: Answer = self._cluster.get(self._calls[name, iteration])
            except Died as death:
                deaths += 1
                if deaths == MOST_DEATHS:
                    how = f"died {MOST_DEATHS} times over iteration {iteration}, the last time by this: {death.reason}"
                    raise LearnerFailed(self._stopped(name, how)) from death
                self._replace(name)
            else:
                del self._calls[name, iteration]
                return answer

    def _replace(self, name: str) -> None:
        """Begin a learner anew after the last iteration that was taken, and give it what it was given since."""
        old = self._members[name].member
        old.dismiss()
        self._hire(name, old.name.number, old.name.term + 1)
        for iteration in sorted(self._sent):
            self._ask(name, iteration)

    def _stopped(self, name: str, how: str) -> str:
        return (
            f"The process that learns for {name} {how}. Everything up to iteration {self._state.iteration} is saved. "
            f"To go on:\n  league train --resume --run-dir {shlex.quote(str(self._run_dir))}"
        )


def saved_learning(state: LearningState | RunState, names: Sequence[str]) -> Files:
    """Return what ``save_learning`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        save_learning(Path(folder) / "saved", state, names)
        return read_files(Path(folder) / "saved")
