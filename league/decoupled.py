"""Learning in processes of their own, seen from the process that plays (M-GRPO, https://arxiv.org/abs/2511.13288).

This process draws, plays, appends trajectories to the record store, and reads weights and reports. With
``decoupled.max_staleness`` = s it plays iteration k with the weights of after iteration k − 1 − s, exactly: how fast
the processes are never shows in the numbers, and a run that was killed goes on bit for bit, for every s.

A learner's report in the store says that its weights of that iteration are whole. The run's saved state then holds
them too, with optimiser and all, as if they had been trained here; so a run may be evolved into one that learns here.
"""

from __future__ import annotations

import json
import multiprocessing
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from games.errors import UsageError
from league.config import RunConfig
from league.learner_process import (
    POLL,
    learners_of,
    open_records,
    run_learner,
    version_folder,
)
from league.learning import Learned, Learner, LearnsHere, Report, joined, staleness
from league.learning_state import load_learning, save_learning
from league.run_state import RECORDS_FILE, RunState
from learners.sqlite_record_store import SqliteRecordStore
from learners.trajectories import Trajectory

# A forked process has imported everything already. Elsewhere than on Linux, system libraries do not stand a fork.
_CONTEXT = multiprocessing.get_context("fork") if sys.platform == "linux" else multiprocessing.get_context("spawn")


class LearnerFailed(RuntimeError):
    """A learner process ended before its work was done; the message says how."""


class _Process(NamedTuple):
    """A learner process and the way to it."""

    process: BaseProcess
    link: Connection


class Learners:
    """The learner processes of a run, if it has any; a context manager that starts them, idle, and ends them.

    Enter it before anything that a process should not inherit: threads, locks, the live view.
    """

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self._config, self._run_dir = config, run_dir
        self._processes: dict[str, _Process] = {}

    def __enter__(self) -> Self:
        for name in learners_of(self._config):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=run_learner, args=(self._run_dir, name, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes[name] = _Process(process, ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._processes.values():
            one.process.kill()  # what it is doing is not acknowledged, and will be done again
        for one in self._processes.values():
            one.process.join()
            one.link.close()

    def learner(self, state: RunState) -> Learner:
        """Return where the loop's trajectories go."""
        if not self._processes:
            return LearnsHere(self._config, state)
        return _LearnsApart(self._config, self._run_dir, state, self._processes)


class _LearnsApart:
    """Learning in other processes."""

    def __init__(self, config: RunConfig, run_dir: Path, state: RunState, processes: dict[str, _Process]) -> None:
        self.ahead = config.decoupled.max_staleness
        self._config, self._run_dir, self._state, self._processes = config, run_dir, state, processes
        self._given: dict[int, Sequence[Trajectory]] = {}
        self._store: SqliteRecordStore | None = None

    def begin(self) -> None:
        """Make the record store where there is none, and let the learners go on from it."""
        path, now = self._run_dir / RECORDS_FILE, self._state.iteration
        if not path.exists():
            for name, own in learners_of(self._config).items():
                save_learning(version_folder(self._run_dir, name, now), self._state, own)
            SqliteRecordStore.create(path, self._processes, now)
        self._store = open_records(self._config, self._run_dir)
        for one in self._processes.values():
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever is dead is missed when it should report
                one.link.send_bytes(b"begin")

    def give(self, iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Append them to the store as soon as it has room. What a killed process appended before is the same."""
        self._given[iteration] = trajectories
        while not self._records.append(iteration, self._state.iteration, trajectories):
            self._wait()

    def take(self, iteration: int) -> Learned:
        """Wait until all have learned from an iteration, and bring what they learned into the run's state."""
        reports = []
        for name in self._processes:
            reports.append(self._report(name, iteration))
            load_learning(version_folder(self._run_dir, name, iteration), self._state)
        self._records.forget_reports(iteration)
        return joined(reports, self._given.pop(iteration), staleness(iteration, self.ahead))

    @property
    def _records(self) -> SqliteRecordStore:
        if self._store is None:
            raise RuntimeError("begin() comes before trajectories are given or taken")
        return self._store

    def _report(self, name: str, iteration: int) -> Report:
        while (report := self._records.report(name, iteration)) is None:
            self._wait()
        told = Report(**json.loads(report))
        return told._replace(advantages={int(place): own for place, own in told.advantages.items()})

    def _wait(self) -> None:
        """Wait a moment. Raises LearnerFailed or UsageError, in its own words, if a learner has ended too early."""
        for name, (process, link) in self._processes.items():
            ended = process.exitcode  # before its last words are read, or they might come in between
            if link.poll() and (words := _last_words(link)):
                kind, text = words
                raise UsageError(text) if kind == "refused" else LearnerFailed(text)
            if ended is not None and self._records.progress(name).batch < self._config.iterations:
                raise LearnerFailed(
                    f"The process that learns for {name} {_how(ended)}. Everything up to iteration "
                    f"{self._state.iteration} is saved. To go on:\n"
                    f"  league train --resume --run-dir {shlex.quote(str(self._run_dir))}"
                )
        time.sleep(POLL)


def _last_words(link: Connection) -> tuple[str, str] | None:
    """Return what a learner tells, and of what kind it is; None if it ended without a word."""
    try:
        kind, text = json.loads(link.recv_bytes())
    except (EOFError, ConnectionResetError):  # the latter if it was killed before it had read what it was sent
        return None
    return str(kind), str(text)


def _how(status: int) -> str:
    """Return in words how a process ended."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}, after the error above"
