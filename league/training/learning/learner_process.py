"""A learner process: it leases a batch, updates its policies, saves a checkpoint, and acknowledges the batch.

It may be killed at any moment. Its folder ``learners/NAME/`` holds its checkpoints by batch number; the record store
says which of them counts, so a checkpoint that was written but never acknowledged is ignored.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

from arena.process import available_threads, tuned_process
from games.common.errors import DamagedFile, UsageError
from games.common.files import atomic_write
from league.config import RunConfig
from league.config.context import RunContext, run_context
from league.config.load import load_run_config
from league.population.storage.full_disk import full_disk_errno
from league.population.storage.lock import run_lock
from league.training.checkpoints.checkpoint import LEARNERS_FOLDER, RECORDS_FILE
from league.training.checkpoints.learner_checkpoint import LearningState, load_learning, save_learning
from league.training.learning.heartbeat import Heartbeat
from league.training.learning.imitation import imitated_replies
from league.training.learning.learner import LearnerReport, learn_subset
from league.training.learning.policies import policies_for_resume
from learners.record_store.interface import Lease, LeaseLost
from learners.record_store.sqlite import SqliteRecordStore
from learners.update.learner import LearningError

FAILED_BATCH_FILE = "failed-batch.json"
POLL_INTERVAL = 0.005  # seconds between two queries of the record store
LEASE_SECONDS = 3600.0  # the longest that learning from a batch may take
LOCK_TIMEOUT = 20.0  # seconds within which a killed run's processes end


def learners_of(context: RunContext) -> dict[str, tuple[str, ...]]:
    """Return each learner process's policies, by its name; empty if the process that plays also learns."""
    config = context.config
    learners = config.async_learners.processes
    if isinstance(learners, dict):
        return learners
    trained = [name for name in context.policies if not config.policy(name).frozen]
    return {name: (name,) for name in trained} if learners == "each" else {}


def checkpoint_folder(run_dir: Path, learner: str, batch: int) -> Path:
    """Return the folder of a learner's checkpoint after a batch."""
    return run_dir / LEARNERS_FOLDER / learner / f"{batch:06d}"


def open_records(config: RunConfig, run_dir: Path, wait: float | None = None) -> SqliteRecordStore:
    """Return a run's record store; its operations wait at most ``wait`` seconds for another process."""
    settings = config.async_learners
    return SqliteRecordStore(
        run_dir / RECORDS_FILE,
        max_staleness=settings.max_staleness,
        lease_seconds=LEASE_SECONDS,
        max_bytes=settings.store_megabytes * 2**20,
        wait=wait,
    )


def run_learner(run_dir: Path, name: str, connection: Connection, heartbeat: Heartbeat) -> None:
    """Run a learner process once the process that plays sends the start; report errors to it as sentences.

    It runs as a ``child_process``, which ends with the process that plays.
    """
    heartbeat.start()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection.recv_bytes()
    try:
        _learn_all(run_dir, name)
    except LearningError as error:
        path = run_dir / FAILED_BATCH_FILE
        atomic_write(path, json.dumps(error.batch._asdict(), indent=1))
        _send_error(connection, "failed", f"{error} The batch is in {path}.")
    except LeaseLost as error:
        _send_error(connection, "failed", str(error))
    except DamagedFile as error:
        _send_error(connection, "damaged", json.dumps([str(error.path), error.what, error.remedy]))
    except UsageError as error:
        _send_error(connection, "refused", str(error))
    except Exception as error:
        if (number := full_disk_errno(error)) is None:
            raise
        _send_error(connection, "full", str(number))


def _send_error(connection: Connection, kind: str, message: str) -> None:
    connection.send_bytes(json.dumps([kind, message]).encode())


def _learn_all(run_dir: Path, name: str) -> None:
    """Learn from all remaining batches."""
    context = run_context(load_run_config(run_dir), run_dir)
    config, learners = context.config, learners_of(context)
    threads = config.threads or max(available_threads() // len(learners), 1)
    with (
        run_lock(run_dir / LEARNERS_FOLDER / name, timeout=LOCK_TIMEOUT),
        tuned_process(threads),
        open_records(config, run_dir) as store,
    ):
        done = store.progress(name).batch
        state = _open_state(context, learners[name])
        load_learning(checkpoint_folder(run_dir, name, done), state)
        while done < config.iterations:
            lease = store.lease(name, name, time.time())  # the lock makes the name unique
            if lease is None:
                time.sleep(POLL_INTERVAL)
                continue
            _remove_checkpoints_before(run_dir, name, done - config.async_learners.max_staleness)
            report = _learn(config, state, lease)
            done = lease.batch
            save_learning(checkpoint_folder(run_dir, name, done), state, learners[name])
            store.acknowledge(lease, report)


def _open_state(context: RunContext, names: tuple[str, ...]) -> LearningState:
    """Return the policies that learn in this process; their weights are not loaded yet."""
    policies = policies_for_resume(context)
    own_policies = {name: policies[name] for name in names}
    return LearningState(own_policies, imitated=imitated_replies(context, own_policies))


def _learn(config: RunConfig, state: LearningState, lease: Lease) -> str:
    """Learn from one batch; return the report."""
    if lease.dropped:
        return json.dumps(LearnerReport(lease.dropped, {}, {})._asdict())
    return json.dumps(learn_subset(config, state, lease.trajectories, lease.evidence, lease.batch)._asdict())


def _remove_checkpoints_before(run_dir: Path, name: str, oldest: int) -> None:
    """Remove the checkpoints before ``oldest``: the process that plays has loaded them."""
    for folder in (run_dir / LEARNERS_FOLDER / name).iterdir():
        if folder.name.isdecimal() and int(folder.name) < oldest:
            shutil.rmtree(folder)
