"""One learner on a cluster: a member, or several that take every update together, each with a share of its rows.

All members of a group are given the same, credit it in the same way, and step alike (``learners.team``), so any of them
could say what was learned; the first one does. If one of them dies, its group begins anew.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from arena.cluster import Call, Cluster, Died, Post, Ref
from arena.ray_pool import own_address
from league.cluster_host import base_folder
from league.config import RunConfig
from league.learning import Report, learn_own
from league.learning_state import Learning, LearningState, load_learning, save_learning
from league.parcels import Base, Files, read_files, write_files
from league.prepared import prepared_process
from league.settings import run_roles
from league.start import policies_on
from league.together import Meeting, meet, shard_policies
from learners.learner import update
from learners.team import ALONE, Team
from learners.trajectories import Trajectory

NOTICE = 10.0  # seconds until it is known who of a group that failed is dead


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
        self._team: Team = ALONE
        self._speaks = True

    def meeting_place(self) -> str:
        """Return where the group can meet, on this one's machine."""
        host = own_address()
        with socket.create_server((host, 0)) as free:
            return f"tcp://{host}:{free.getsockname()[1]}"

    def meet(self, place: str, rank: int, size: int) -> None:
        """Join the others."""
        self._team = team = meet(Meeting(rank, size, 0, place))  # of GPUs it sees its own alone
        self._speaks = rank == 0
        if self._config.learner.sharded:
            shard_policies(self._config, self._state.policies, team)

    def begin(self, saved: Files) -> None:
        """Go on from what was saved."""
        with tempfile.TemporaryDirectory() as folder:
            load_learning(write_files(saved, Path(folder)), self._state)

    def learn(self, iteration: int, trajectories: Sequence[Trajectory]) -> Answer | None:
        """Learn from an iteration; the group's first member tells. Raises as ``learners.learner.update``."""
        report = learn_own(self._config, self._state, trajectories, iteration, partial(update, team=self._team))
        saved = saved_learning(self._state, self._names)  # of shards all have to be asked
        return Answer(report, saved) if self._speaks else None


class Group:
    """The members of one learner, who have been told where to begin."""

    def __init__(self, cluster: Cluster, post: Post, size: int, number: int, term: int, saved: Ref) -> None:
        """Start ``size`` members; ``number`` is the learner's, ``term`` says how often it began before."""
        self._cluster, self.number, self.term = cluster, number, term
        self._members = [cluster.hire(post, number * size + rank, term) for rank in range(size)]
        self.there = [member.call("there") for member in self._members]
        self._begun: list[Call] = []
        if size > 1:
            place = self._members[0].call("meeting_place")
            self._begun += [one.call("meet", place.ref, rank, size) for rank, one in enumerate(self._members)]
        self._begun += [member.call("begin", saved) for member in self._members]
        self._calls: dict[int, list[Call]] = {}  # by iteration

    def ask(self, iteration: int, trajectories: Ref) -> None:
        """Let them learn from an iteration after those before it."""
        self._calls[iteration] = [one.call("learn", iteration, trajectories) for one in self._members]

    def answer(self, iteration: int) -> Answer:
        """Wait for all; return what was learned. Raises Died, and what went wrong as it was raised."""
        waiting = [*self._begun, *self._calls[iteration]]  # what is wrong with the beginning is told by nothing else
        first = self._calls[iteration][0]
        found: list[Answer] = []
        while waiting:
            for call in self._cluster.done(waiting, None):
                waiting.remove(call)
                came = self._told(call)
                found += [came] if call == first else []
        self._begun = []
        del self._calls[iteration]
        return found[0]

    def dismiss(self) -> None:
        """End them."""
        for member in self._members:
            member.dismiss()

    def _told(self, call: Call) -> Answer:
        """Return what came of a call. Those that live on may fail before it is known who is dead."""
        try:
            answer: Answer = self._cluster.get(call)
        except RuntimeError as error:
            if not isinstance(error, Died) and len(self._members) > 1:
                self._raise_deaths()
            raise
        return answer

    def _raise_deaths(self) -> None:
        """Raise Died if a member is dead."""
        waiting = [member.call("there") for member in self._members]
        while waiting and (done := self._cluster.done(waiting, NOTICE)):
            for call in done:
                waiting.remove(call)
                self._cluster.get(call)


def saved_learning(state: Learning, names: Sequence[str]) -> Files:
    """Return what ``save_learning`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        save_learning(Path(folder) / "saved", state, names)
        return read_files(Path(folder) / "saved")
