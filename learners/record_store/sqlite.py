"""The record store in one SQLite file, in WAL mode: one process appends, many learners read, none blocks another long.

    learners(name, batch, consumed, dropped, token, holder, expires)    each learner's progress and lease
    batches(number, version, records, bytes)    the batches that some learner still needs
    records(id, batch, query, rollout, …)    see ``learners.record_store.codec``
    reports(learner, batch, report)

Deleted records leave pages that later ones fill, so the file grows to the largest amount ever stored, which
``max_bytes`` bounds. The write-ahead log is truncated after every checkpoint. With synchronous = FULL, appended and
acknowledged batches survive a power failure, at the price of one fsync a call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from games.common.errors import UsageError
from games.common.files import sync_folder
from games.common.sqlite_file import SqliteFile, SqliteLayout
from learners.record_store.codec import StoredTrajectory, from_record, to_record
from learners.record_store.interface import LearnerProgress, Lease, LeaseLost
from learners.trajectories import Evidence, Trajectory

PAGE_BYTES = 16384  # bytes: a record of some hundred tokens fits into one or two pages
AUTOCHECKPOINT_PAGES = 256  # pages in the write-ahead log at which SQLite copies them into the file: 4 MB

_LAYOUT = SqliteLayout(
    application=0x6C656172,  # "lear"
    version=1,
    name="a record store",
    if_foreign="Move it.",
    if_damaged="",
    tables="""
CREATE TABLE learners (
    name TEXT PRIMARY KEY, batch INTEGER NOT NULL, consumed INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, holder TEXT, expires REAL
);
CREATE TABLE batches (
    number INTEGER PRIMARY KEY, version INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL
);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, batch INTEGER NOT NULL, query INTEGER NOT NULL, rollout INTEGER NOT NULL,
    invocation INTEGER NOT NULL, parent INTEGER, role TEXT NOT NULL, policy TEXT NOT NULL, snapshots TEXT NOT NULL,
    facts TEXT NOT NULL, tokens BLOB NOT NULL, logprobs BLOB NOT NULL, rewards BLOB NOT NULL
);
CREATE INDEX records_of_batch ON records (batch);
CREATE TABLE reports (
    learner TEXT NOT NULL, batch INTEGER NOT NULL, report TEXT NOT NULL, PRIMARY KEY (learner, batch)
);
""",
)
_COLUMNS = ("batch", *StoredTrajectory._fields)
_INSERT = f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class SqliteRecordStore(SqliteFile):
    """The file at ``path``, which ``create`` made; see ``SqliteFile`` for what it refuses.

    ``max_staleness``: how many batches a learner may have learned from since the weights that played a batch.
    ``lease_seconds``: after how long another holder may lease the batch. ``max_bytes``: size of the stored records
    beyond which nothing is appended until some are acknowledged. ``wait``: seconds for another process's transaction.
    """

    def __init__(
        self, path: Path, *, max_staleness: int, lease_seconds: float, max_bytes: int, wait: float | None = None
    ) -> None:
        self._max_staleness, self._lease_seconds, self._max_bytes = max_staleness, lease_seconds, max_bytes
        if not path.is_file():
            raise UsageError(f"There is no record store {path}. Resume its run, which creates it.")
        super().__init__(path, _LAYOUT, wait=wait)
        with self._sqlite_errors():
            self._db.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
            self._db.execute("PRAGMA journal_size_limit = 0")

    @staticmethod
    def create(path: Path, learners: Iterable[str], batch: int = 0) -> None:
        """Create an empty store, atomically, whose learners have learned from all batches up to ``batch``."""
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        database = sqlite3.connect(partial, isolation_level=None)
        try:
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            database.executescript(_LAYOUT.script())
            database.executemany(
                "INSERT INTO learners (name, batch) VALUES (?, ?)", [(name, batch) for name in learners]
            )
            database.execute("PRAGMA journal_mode = WAL")
        finally:
            database.close()
        partial.rename(path)
        sync_folder(path.parent)

    def append(
        self, batch: int, version: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
    ) -> bool:
        """See ``RecordStore``. An empty store takes a batch of any size."""
        records = [to_record(*pair) for pair in zip(trajectories, evidence, strict=True)]
        size = sum(len(r.facts) + len(r.tokens) + len(r.logprobs) + len(r.rewards) for r in records)
        with self._transaction("IMMEDIATE"):
            newest = self._newest()
            if batch <= newest:
                return True
            if batch != newest + 1:
                raise ValueError(f"batch {batch} cannot be appended: the newest is {newest}, so {newest + 1} is next")
            stored = self._number("SELECT coalesce(sum(bytes), 0) FROM batches")
            if stored and stored + size > self._max_bytes:
                return False
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (batch, version, len(records), size))
            self._db.executemany(_INSERT, ((batch, *record) for record in records))
        return True

    def lease(self, learner: str, holder: str, now: float) -> Lease | None:
        """See ``RecordStore``."""
        with self._transaction("IMMEDIATE"):
            done, token, current_holder, expires = self._learner(learner, "batch, token, holder, expires")
            batch_row = self._row("SELECT version, records FROM batches WHERE number = ?", done + 1)
            if batch_row is None or (current_holder not in (None, holder) and now < expires):
                return None
            version, records = batch_row
            self._db.execute(
                "UPDATE learners SET token = ?, holder = ?, expires = ? WHERE name = ?",
                (token + 1, holder, now + self._lease_seconds, learner),
            )
        stale = done - version > self._max_staleness
        rows = [] if stale else list(self._trajectories(done + 1))
        trajectories, evidence = tuple([t for t, _ in rows]), tuple([e for _, e in rows])
        return Lease(learner, done + 1, token + 1, trajectories, evidence, records if stale else 0)

    def acknowledge(self, lease: Lease, report: str) -> None:
        """See ``RecordStore``."""
        with self._transaction("IMMEDIATE"):
            done, token = self._learner(lease.learner, "batch, token")
            if (done + 1, token) != (lease.batch, lease.token):
                raise LeaseLost(
                    f"Learner {lease.learner} cannot acknowledge batch {lease.batch} by its lease {lease.token}: it is "
                    f"at batch {done}, and its newest lease is {token}. Two processes train it; stop one of them."
                )
            self._db.execute(
                "UPDATE learners SET batch = ?, consumed = consumed + ?, dropped = dropped + ?, holder = NULL, "
                "expires = NULL WHERE name = ?",
                (lease.batch, len(lease.trajectories), lease.dropped, lease.learner),
            )
            self._db.execute("INSERT INTO reports VALUES (?, ?, ?)", (lease.learner, lease.batch, report))
            slowest = self._number("SELECT min(batch) FROM learners")
            self._db.execute("DELETE FROM records WHERE batch <= ?", (slowest,))
            self._db.execute("DELETE FROM batches WHERE number <= ?", (slowest,))

    def report(self, learner: str, batch: int) -> str | None:
        """See ``RecordStore``."""
        with self._sqlite_errors():
            row = self._row("SELECT report FROM reports WHERE learner = ? AND batch = ?", learner, batch)
        return None if row is None else str(row[0])

    def progress(self, learner: str) -> LearnerProgress:
        """See ``RecordStore``."""
        with self._sqlite_errors():
            return LearnerProgress(*self._learner(learner, "batch, consumed, dropped"))

    def delete_reports(self, before: int) -> None:
        """See ``RecordStore``."""
        with self._transaction("IMMEDIATE"):
            self._db.execute("DELETE FROM reports WHERE batch < ?", (before,))

    def stored(self) -> tuple[int, int]:
        """Return the number of records that some learner still needs, and their size in bytes."""
        with self._sqlite_errors():
            records, size = self._row("SELECT coalesce(sum(records), 0), coalesce(sum(bytes), 0) FROM batches")
        return int(records), int(size)

    def _newest(self) -> int:
        """Return the number of the newest batch that was ever appended."""
        return self._number("SELECT max((SELECT max(batch) FROM learners), coalesce(max(number), 0)) FROM batches")

    def _trajectories(self, batch: int) -> Iterator[tuple[Trajectory, Evidence]]:
        query = "SELECT facts, tokens, logprobs, rewards FROM records WHERE batch = ? ORDER BY id"
        with self._sqlite_errors():
            for row in self._db.execute(query, (batch,)):
                yield from_record(*row)

    def _learner(self, name: str, columns: str) -> Any:
        row = self._row(f"SELECT {columns} FROM learners WHERE name = ?", name)
        if row is None:
            raise UsageError(f"{self.path} has no learner {name!r}. Its run was started with other learners.")
        return row
