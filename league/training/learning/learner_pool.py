"""Learner processes, seen from the process that plays (M-GRPO, https://arxiv.org/abs/2511.13288).

This process draws and plays matches, appends trajectories to the record store, and reads reports and weights. With
``async_learners.max_staleness`` = s it plays iteration k with exactly the weights after iteration k − 1 − s. So results
do not depend on the processes' speed, and a killed run resumes bit for bit, for every s.

A learner that is killed or falls silent is ended and replaced: its replacement continues from what it had acknowledged.

A learner's report in the store says that its checkpoint of that iteration is complete. It is loaded, optimiser state
included, into the run's state, which is then saved as if this process had learned; so a run can be evolved into one
that learns in the process that plays.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from games.common import plugins
from games.common.child_processes import child_process
from games.common.errors import DamagedFile, UsageError
from games.common.sqlite_file import WAIT, HeldFile
from league.config.context import RunContext
from league.training.checkpoints.checkpoint import RECORDS_FILE
from league.training.checkpoints.learner_checkpoint import load_learning, save_learning
from league.training.checkpoints.run_state import RunState
from league.training.interfaces import Learner, LearnerFailed, LearnerLost, LearnResult
from league.training.learning import heartbeat
from league.training.learning.heartbeat import Heartbeat, Listener
from league.training.learning.learner import InProcessLearner, LearnerReport, merge_reports, staleness
from league.training.learning.learner_process import (
    POLL_INTERVAL,
    checkpoint_folder,
    learners_of,
    open_records,
)
from learners.record_store.sqlite import SqliteRecordStore
from learners.trajectories import Evidence, Trajectory

# A forked process has imported everything already. On other systems than Linux, system libraries do not survive a fork.
FORK = multiprocessing.get_context("fork") if sys.platform == "linux" else multiprocessing.get_context("spawn")

SPAWN = multiprocessing.get_context("spawn")  # for replacements: by then this process has threads
MAX_DEATHS = 3  # of one learner over one iteration

STORE_WAIT = 0.5  # seconds to wait for the record store before checking whether the learner that holds it hangs

T = TypeVar("T")


def learner_failed(what: str, iteration: int, run_dir: Path) -> LearnerLost:
    """Return the error of a run that has lost a learner; ``what`` is a sentence about it."""
    return LearnerLost(
        f"{what} Everything up to iteration {iteration} is saved. To go on:\n"
        f"  league train --resume --run-dir {shlex.quote(str(run_dir))}{plugins.as_options()}"
    )


class _Process(NamedTuple):
    """A learner process and the connection to it."""

    process: BaseProcess
    connection: Connection
    listener: Listener

    @classmethod
    def start(cls, context: Any, run_dir: Path, name: str) -> Self:
        """Start a learner of a run, which waits to be told to begin."""
        connection, child_connection = context.Pipe()
        beat = Heartbeat(context)
        arguments = ("run_learner", run_dir, name, child_connection, beat)
        process = child_process(context, "league.training.learning.learner_process", *arguments)
        process.start()
        child_connection.close()
        return cls(process, connection, Listener(beat))

    def begin(self) -> None:
        """Let it start or resume."""
        with suppress(BrokenPipeError, ConnectionResetError):  # a dead process is reported by who waits for it
            self.connection.send_bytes(b"begin")

    def end(self) -> None:
        """Kill it; work that it has not acknowledged will be done again."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class LearnerPool:
    """The learner processes of a run, if it has any; a context manager that starts them, idle, and stops them.

    Enter it before anything that a process should not inherit: threads, locks, the live view.
    """

    def __init__(self, context: RunContext) -> None:
        """Prepare them. Raises UsageError where the run's state is not saved with each of theirs."""
        self._context = context
        self._processes: dict[str, _Process] = {}
        if learners_of(context) and context.config.checkpoint_every > 1:
            raise UsageError(
                f"checkpoint_every = {context.config.checkpoint_every}: learner processes on one machine save their "
                "state after every iteration, and the run must not be further behind. Set it to 1, play on a cluster "
                "(--cluster), or set async_learners.processes = 'none'."
            )

    def __enter__(self) -> Self:
        for name in learners_of(self._context):
            self._processes[name] = _Process.start(FORK, self._context.run_dir, name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for learner in self._processes.values():
            learner.process.kill()
        for learner in self._processes.values():
            learner.end()

    def learner(self, state: RunState) -> Learner:
        """Return the learner that the loop submits trajectories to."""
        if not self._processes:
            return InProcessLearner(self._context.config, state)
        return AsyncLearner(self._context, state, self._processes)


class AsyncLearner:
    """A ``Learner`` whose work is done by learner processes."""

    def __init__(self, context: RunContext, state: RunState, processes: dict[str, _Process]) -> None:
        self.lead = context.config.async_learners.max_staleness
        self._context, self._state, self._processes = context, state, processes
        self._config, self._run_dir = context.config, context.run_dir
        self._submitted: dict[int, Sequence[Trajectory]] = {}
        self._store: SqliteRecordStore | None = None
        self._deaths: Counter[str] = Counter()  # by learner, since the last iteration that was collected

    def begin(self) -> None:
        """Create the record store if there is none, and let the learners start or resume."""
        path, iteration = self._run_dir / RECORDS_FILE, self._state.iteration
        if not path.exists():
            for name, policies in learners_of(self._context).items():
                save_learning(checkpoint_folder(self._run_dir, name, iteration), self._state, policies)
            SqliteRecordStore.create(path, self._processes, iteration)
        self._store = open_records(self._config, self._run_dir, STORE_WAIT)
        self._store.check_integrity()
        for name in self._processes:
            if not iteration <= self._store.progress(name).batch <= iteration + self.lead + 1:
                raise DamagedFile(path, f"it does not belong to the checkpoint of iteration {iteration}")
        for learner in self._processes.values():
            learner.begin()

    def submit(self, iteration: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> None:
        """Append them to the store as soon as it has room. A resumed run appends the same trajectories again."""
        self._submitted[iteration] = trajectories
        arguments = (iteration, self._state.iteration, trajectories, evidence)
        while not self._when_free(lambda: self._records.append(*arguments)):
            self._wait()

    def ready(self, iteration: int) -> bool:
        """Return whether all have learned from an iteration. Raises as ``collect``."""
        if all(self._records.report(name, iteration) is not None for name in self._processes):
            return True
        self._check()
        return False

    def recover(self) -> bool:
        """Return False: no process writes a checkpoint but the one that plays."""
        return False

    def collect(self, iteration: int) -> LearnResult:
        """Wait until all have learned from an iteration, and load their policies into the run's state."""
        reports = []
        for name in self._processes:
            reports.append(self._report(name, iteration))
            load_learning(checkpoint_folder(self._run_dir, name, iteration), self._state)
        self._when_free(lambda: self._records.delete_reports(iteration))
        learned = merge_reports(reports, self._submitted.pop(iteration), staleness(iteration, self.lead))
        replaced, self._deaths = sum(self._deaths.values()), Counter()
        return (
            learned._replace(metrics=learned.metrics | {"learners/replaced": float(replaced)}) if replaced else learned
        )

    @property
    def _records(self) -> SqliteRecordStore:
        if self._store is None:
            raise RuntimeError("begin() must be called before submit() and collect()")
        return self._store

    def _when_free(self, change: Callable[[], T]) -> T:
        """Change the record store. Raises like ``_wait``: the process that holds it may have been stopped."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                return change()
            except HeldFile:
                if time.monotonic() > deadline:
                    raise
            self._wait()

    def _report(self, name: str, iteration: int) -> LearnerReport:
        while (report := self._records.report(name, iteration)) is None:
            if self._records.progress(name).batch >= iteration and self._records.report(name, iteration) is None:
                raise DamagedFile(self._records.path, f"it lacks the report of iteration {iteration}")
            self._wait()
        fields = json.loads(report)
        advantages = {int(index): advantages_K for index, advantages_K in fields["advantages"].items()}
        selections = {int(index): cell for index, cell in fields.get("selections", {}).items()}
        return LearnerReport(**fields | {"advantages": advantages, "selections": selections})

    def _wait(self) -> None:
        """Wait a moment. Raises as ``_check``."""
        self._check()
        time.sleep(POLL_INTERVAL)

    def _check(self) -> None:
        """Replace learners that were killed or hang. Raises the error that one sent, or LearnerFailed if it ended."""
        for name, (process, connection, listener) in list(self._processes.items()):
            status = process.exitcode  # read before the connection: an error might be sent in between
            if connection.poll() and (error := _receive_error(connection)):
                raise error
            if status is not None and self._records.progress(name).batch < self._config.iterations:
                self._lost(name, f"The process that learns for {name} {_how(status)}.", replaces=status < 0)
            if status is None and listener.silence() > heartbeat.SILENCE:
                silent = heartbeat.gone_silent(f"The process that learns for {name}", process.pid)
                self._lost(name, silent, replaces=True)

    def _lost(self, name: str, failure: str, *, replaces: bool) -> None:
        """Replace a learner. Raises LearnerFailed if that cannot help: it ended by itself, or is lost every time."""
        self._deaths[name] += 1
        if not replaces or self._deaths[name] == MAX_DEATHS:
            again = f" That happened {MAX_DEATHS} times in one iteration." if replaces else ""
            raise learner_failed(f"{failure}{again}", self._state.iteration, self._run_dir)
        self._processes[name].end()
        self._processes[name] = _Process.start(SPAWN, self._run_dir, name)
        self._processes[name].begin()


def _receive_error(connection: Connection) -> UsageError | LearnerFailed | OSError | None:
    """Return the error that a learner has sent; None if it ended without sending one."""
    try:
        kind, message = json.loads(connection.recv_bytes())
    except (EOFError, ConnectionResetError):  # the latter if it was killed before it read the start
        return None
    if kind == "damaged":
        path, what, remedy = json.loads(message)
        return DamagedFile(Path(path), what, remedy)
    if kind == "full":
        return OSError(int(message), os.strerror(int(message)))
    return UsageError(message) if kind == "refused" else LearnerFailed(message)


def _how(status: int) -> str:
    """Return how a process ended, as the end of a sentence."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}, after the error above"
