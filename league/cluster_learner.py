"""Learners on a cluster: each an actor with some of the policies, which learns from one iteration after the other.

What a learner is after an iteration comes back whole, so the process that steers the run can begin it anew elsewhere
if it dies: from the last iteration that was taken, with the trajectories that were given since.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from arena.cluster import Cluster, Died, Post, Ref
from arena.pool import PATIENCE
from league.config import RunConfig
from league.decoupled import LearnerFailed
from league.learner_group import Answer, Group, LearnerHost, saved_learning
from league.learner_process import learners_of
from league.learning import Learned, joined, staleness
from league.learning_state import load_learning
from league.parcels import Base, write_files
from league.run_state import RunState, forget_learners
from learners.trajectories import Trajectory

MOST_DEATHS = 3  # over one iteration's learning


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
        self._size = config.learner.processes
        self._groups: dict[str, Group] = {}
        self._saved: dict[str, Ref] = {}  # by learner, after the last iteration that was taken
        self._given: dict[int, Sequence[Trajectory]] = {}
        self._sent: dict[int, Ref] = {}  # the same in the cluster

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
        for group in self._groups.values():
            group.ask(iteration, self._sent[iteration])

    def take(self, iteration: int) -> Learned:
        """Wait until all have learned from an iteration, and bring what they learned into the run's state."""
        reports = []
        for name in self._groups:
            answer = self._answer(name, iteration)
            reports.append(answer.report)
            self._saved[name] = self._cluster.put(answer.saved)
            with tempfile.TemporaryDirectory() as folder:
                load_learning(write_files(answer.saved, Path(folder)), self._state)
        del self._sent[iteration]
        return joined(reports, self._given.pop(iteration), staleness(iteration, self.ahead))

    def close(self) -> None:
        """End them."""
        for group in self._groups.values():
            group.dismiss()

    def _hire(self, name: str, number: int, term: int) -> None:
        self._groups[name] = Group(self._cluster, self._posts[name], self._size, number, term, self._saved[name])

    def _answer(self, name: str, iteration: int) -> Answer:
        """Return what a learner gives back; one that dies is replaced, a bounded number of times."""
        deaths = 0
        while True:
            try:
                self._wait_for(name)
                return self._groups[name].answer(iteration)
            except Died as death:
                deaths += 1
                if deaths == MOST_DEATHS:
                    how = f"died {MOST_DEATHS} times over iteration {iteration}, the last time by this: {death.reason}"
                    raise LearnerFailed(self._stopped(name, how)) from death
                self._replace(name)

    def _wait_for(self, name: str) -> None:
        """Wait until all of a learner's members are there. Raises LearnerFailed if they never are."""
        waiting = list(self._groups[name].there)
        while waiting:
            done = self._cluster.done(waiting, PATIENCE)
            if not done:
                raise LearnerFailed(self._stopped(name, f"found no place in the cluster for {PATIENCE:.0f} s"))
            waiting = [call for call in waiting if call not in done]

    def _replace(self, name: str) -> None:
        """Begin a learner anew after the last iteration that was taken, and give it what it was given since."""
        old = self._groups[name]
        old.dismiss()
        self._hire(name, old.number, old.term + 1)
        for iteration in sorted(self._sent):
            self._groups[name].ask(iteration, self._sent[iteration])

    def _stopped(self, name: str, how: str) -> str:
        return (
            f"The process that learns for {name} {how}. Everything up to iteration {self._state.iteration} is saved. "
            f"To go on:\n  league train --resume --run-dir {shlex.quote(str(self._run_dir))}"
        )
