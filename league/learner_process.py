"""A process that learns and does nothing else: it leases a batch, updates its policies, saves them, acknowledges.

It may be killed at any moment. Its folder ``learners/NAME/`` holds its policies as they were after batches, by number;
which of them counts is what the record store says. So a folder that was written but never acknowledged is nobody's.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from games.errors import UsageError
from games.files import atomic_write
from league.config import RunConfig
from league.learning import Report, learn_own
from league.learning_state import LearningState, load_learning, save_learning
from league.lock import run_lock
from league.population import Population
from league.prepared import cores, prepared_process
from league.run_state import LEARNERS_FOLDER, RECORDS_FILE
from league.settings import CONFIG_FILE, load, run_roles
from league.start import policy_names, reopened_policies
from learners.learner import LearningError
from learners.record_store import Lease, LeaseLost
from learners.sqlite_record_store import SqliteRecordStore

FAILED_BATCH_FILE = "failed-batch.json"
POLL = 0.005  # seconds between two looks into the store
LEASE = 3600.0  # seconds that a batch may take
PATIENCE = 20.0  # seconds for the processes of a killed run to notice that it is dead


def learners_of(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Return the policies of each learner process, by its name; none if the process that plays learns."""
    learners = config.decoupled.learners
    if isinstance(learners, dict):
        return learners
    trained = [name for name in policy_names(config, run_roles(config)) if not config.policy(name).frozen]
    return {name: (name,) for name in trained} if learners == "each" else {}


def version_folder(run_dir: Path, learner: str, batch: int) -> Path:
    """Return where a learner's policies lie as they were after a batch."""
    return run_dir / LEARNERS_FOLDER / learner / f"{batch:06d}"


def open_records(config: RunConfig, run_dir: Path) -> SqliteRecordStore:
    """Return a run's record store."""
    settings = config.decoupled
    return SqliteRecordStore(
        run_dir / RECORDS_FILE,
        max_staleness=settings.max_staleness,
        lease_seconds=LEASE,
        most_bytes=settings.store_megabytes * 2**20,
    )


def run_learner(run_dir: Path, name: str, link: Connection) -> None:
    """Be a learner process from the moment that the one that plays says so; tell it in a sentence what went wrong.

    Ctrl-C is for the process that plays; with its end, however it comes, this one ends too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    link.recv_bytes()
    try:
        _learn_all(run_dir, name)
    except LearningError as error:
        path = run_dir / FAILED_BATCH_FILE
        atomic_write(path, json.dumps(error.batch._asdict(), indent=1))
        _tell(link, "failed", f"{error} The batch is in {path}.")
    except LeaseLost as error:
        _tell(link, "failed", str(error))
    except UsageError as error:
        _tell(link, "refused", str(error))


def _tell(link: Connection, kind: str, text: str) -> None:
    link.send_bytes(json.dumps([kind, text]).encode())


def end_with_parent() -> None:
    """Wait for the end of the process that plays, and end at once: whatever is half done will be done again."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _learn_all(run_dir: Path, name: str) -> None:
    """Learn from every batch that is left."""
    config = load(str(run_dir / CONFIG_FILE))
    learners = learners_of(config)
    threads = config.threads or max(cores() // len(learners), 1)
    with (
        run_lock(run_dir / LEARNERS_FOLDER / name, patience=PATIENCE),
        prepared_process(threads),
        open_records(config, run_dir) as store,
    ):
        done = store.progress(name).batch
        state = _opened(config, run_dir, learners[name])
        load_learning(version_folder(run_dir, name, done), state)
        while done < config.iterations:
            lease = store.lease(name, name, time.time())  # who holds the lock holds the name
            if lease is None:
                time.sleep(POLL)
                continue
            _remove_older(run_dir, name, done - config.decoupled.max_staleness)
            report = _learn(config, state, lease)
            done = lease.batch
            save_learning(version_folder(run_dir, name, done), state, learners[name])
            store.acknowledge(lease, report)


def _opened(config: RunConfig, run_dir: Path, names: tuple[str, ...]) -> LearningState:
    """Return the policies that learn in this process, to be filled."""
    policies = reopened_policies(config, run_roles(config), run_dir, Population(run_dir / "population"))
    return LearningState({name: policies[name] for name in names})


def _learn(config: RunConfig, state: LearningState, lease: Lease) -> str:
    """Learn from one batch; return the report."""
    if lease.dropped:
        return json.dumps(Report(lease.dropped, {}, {})._asdict())
    return json.dumps(learn_own(config, state, lease.trajectories, lease.batch)._asdict())


def _remove_older(run_dir: Path, name: str, oldest: int) -> None:
    """Remove the policies of before ``oldest``: the process that plays has seen them."""
    for folder in (run_dir / LEARNERS_FOLDER / name).iterdir():
        if folder.name.isdecimal() and int(folder.name) < oldest:
            shutil.rmtree(folder)
