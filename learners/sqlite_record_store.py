"""The record store in one SQLite file, in WAL mode: one process appends, many learners read, none blocks another long.

    learners(name, batch, consumed, dropped, token, holder, expires)    how far each has come, and its lease
    batches(number, version, records, bytes)    those that some learner still needs
    records(batch, place, query, rollout, …)    see ``learners.record_codec``
    reports(learner, batch, report)

Deleted records leave pages that the next ones fill, so the file is as large as the most that was ever held at once,
which ``most_bytes`` bounds; the log of changes is cut back whenever it has been folded in. With synchronous = FULL
what was appended or acknowledged outlives a power cut, at the price of one forced write a call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from games.errors import UsageError
from games.files import sync_folder
from learners.record_codec import Record, from_record, to_record
from learners.record_store import Lease, LeaseLost, Progress
from learners.trajectories import Trajectory

APPLICATION, LAYOUT = 0x6C656172, 1  # "lear"; the layout of the tables
WAIT = 60.0  # seconds for another process to finish its transaction
PAGE = 16384  # bytes: a record of some hundred tokens fits into one or two pages
LOG = 256  # pages of changes that are folded into the file at once: 4 MB

_TABLES = f"""
BEGIN IMMEDIATE;
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
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {LAYOUT};
COMMIT;
"""
_INSERT = f"INSERT INTO records (batch, {', '.join(Record._fields)}) VALUES (?{', ?' * len(Record._fields)})"


class SqliteRecordStore:
    """The file at ``path``, which ``create`` made; a context manager that closes it.

    ``max_staleness``: how many batches the learner may have learned from since the weights that played a batch.
    ``lease_seconds``: how long a learner may take for a batch before another holder may have it. ``most_bytes``:
    records held at once, beyond which nothing is appended until some are acknowledged. Raises UsageError for a
    file that is missing, damaged, foreign, of a newer version, or held by another process for more than a minute.
    """

    def __init__(self, path: Path, *, max_staleness: int, lease_seconds: float, most_bytes: int) -> None:
        self.path = path
        self._max_staleness, self._lease_seconds, self._most_bytes = max_staleness, lease_seconds, most_bytes
        if not path.is_file():
            raise UsageError(f"There is no record store {path}. Resume its run, which makes it.")
        with self._told():
            self._db = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
            self._check()
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG}")
            self._db.execute("PRAGMA journal_size_limit = 0")

    @staticmethod
    def create(path: Path, learners: Iterable[str], batch: int = 0) -> None:
        """Make an empty store whose learners have ``batch`` behind them; it is there whole or not at all."""
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        database = sqlite3.connect(partial, isolation_level=None)
        try:
            database.execute(f"PRAGMA page_size = {PAGE}")
            database.executescript(_TABLES)
            database.executemany("INSERT INTO learners (name, batch) VALUES (?, ?)", [(one, batch) for one in learners])
            database.execute("PRAGMA journal_mode = WAL")
        finally:
            database.close()
        partial.rename(path)
        sync_folder(path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was appended or acknowledged is on disk already."""
        self._db.close()

    def append(self, batch: int, version: int, trajectories: Sequence[Trajectory]) -> bool:
        """See ``RecordStore``. An empty store takes a batch of any size."""
        records = [to_record(one) for one in trajectories]
        size = sum(len(one.facts) + len(one.tokens) + len(one.logprobs) + len(one.rewards) for one in records)
        with self._transaction("IMMEDIATE"):
            newest = self._newest()
            if batch <= newest:
                return True
            if batch != newest + 1:
                raise ValueError(f"batch {batch} cannot be appended: the newest is {newest}, so {newest + 1} is next")
            held = self._number("SELECT coalesce(sum(bytes), 0) FROM batches")
            if held and held + size > self._most_bytes:
                return False
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (batch, version, len(records), size))
            self._db.executemany(_INSERT, ((batch, *record) for record in records))
        return True

    def lease(self, learner: str, holder: str, now: float) -> Lease | None:
        """See ``RecordStore``."""
        with self._transaction("IMMEDIATE"):
            done, token, held_by, expires = self._learner(learner, "batch, token, holder, expires")
            found = self._row("SELECT version, records FROM batches WHERE number = ?", done + 1)
            if found is None or (held_by not in (None, holder) and now < expires):
                return None
            version, count = found
            self._db.execute(
                "UPDATE learners SET token = ?, holder = ?, expires = ? WHERE name = ?",
                (token + 1, holder, now + self._lease_seconds, learner),
            )
        stale = done - version > self._max_staleness
        trajectories = () if stale else tuple(self._trajectories(done + 1))
        return Lease(learner, done + 1, token + 1, trajectories, count if stale else 0)

    def acknowledge(self, lease: Lease, report: str) -> None:
        """See ``RecordStore``."""
        with self._transaction("IMMEDIATE"):
            done, token = self._learner(lease.learner, "batch, token")
            if (done + 1, token) != (lease.batch, lease.token):
                raise LeaseLost(
                    f"Learner {lease.learner} cannot acknowledge batch {lease.batch} by its lease {lease.token}: it is "
                    f"at batch {done}, and its newest lease is {token}. Another process learns in its place; end one."
                )
            self._db.execute(
                "UPDATE learners SET batch = ?, consumed = consumed + ?, dropped = dropped + ?, holder = NULL, "
                "expires = NULL WHERE name = ?",
                (lease.batch, len(lease.trajectories), lease.dropped, lease.learner),
            )
            self._db.execute("INSERT INTO reports VALUES (?, ?, ?)", (lease.learner, lease.batch, report))
            everybody = self._number("SELECT min(batch) FROM learners")
            self._db.execute("DELETE FROM records WHERE batch <= ?", (everybody,))
            self._db.execute("DELETE FROM batches WHERE number <= ?", (everybody,))

    def report(self, learner: str, batch: int) -> str | None:
        """See ``RecordStore``."""
        with self._told():
            found = self._row("SELECT report FROM reports WHERE learner = ? AND batch = ?", learner, batch)
        return None if found is None else str(found[0])

    def progress(self, learner: str) -> Progress:
        """See ``RecordStore``."""
        with self._told():
            return Progress(*self._learner(learner, "batch, consumed, dropped"))

    def forget_reports(self, before: int) -> None:
        """See ``RecordStore``."""
        with self._transaction("IMMEDIATE"):
            self._db.execute("DELETE FROM reports WHERE batch < ?", (before,))

    def held(self) -> tuple[int, int]:
        """Return how many records some learner still needs, and their bytes."""
        with self._told():
            records, size = self._row("SELECT coalesce(sum(records), 0), coalesce(sum(bytes), 0) FROM batches") or (
                0,
                0,
            )
        return int(records), int(size)

    def _newest(self) -> int:
        """Return the number of the newest batch that was ever appended."""
        return self._number("SELECT max((SELECT max(batch) FROM learners), coalesce(max(number), 0)) FROM batches")

    def _trajectories(self, batch: int) -> Iterator[Trajectory]:
        query = "SELECT facts, tokens, logprobs, rewards FROM records WHERE batch = ? ORDER BY id"
        with self._told():
            for row in self._db.execute(query, (batch,)):
                yield from_record(*row)

    def _learner(self, name: str, columns: str) -> Any:
        found = self._row(f"SELECT {columns} FROM learners WHERE name = ?", name)
        if found is None:
            raise UsageError(f"{self.path} knows no learner {name!r}. Its run was begun with other learners.")
        return found

    def _row(self, query: str, *arguments: str | int) -> Any:
        return self._db.execute(query, arguments).fetchone()

    def _number(self, query: str) -> int:
        return int(self._row(query)[0])

    def _check(self) -> None:
        """Refuse a file that is not one of ours."""
        if self._number("PRAGMA application_id") != APPLICATION:
            self.close()
            raise UsageError(f"{self.path} is an SQLite file, but not a record store. Move it.")
        layout = self._number("PRAGMA user_version")
        if layout > LAYOUT:
            self.close()
            raise UsageError(
                f"{self.path} has the layout {layout} of a newer league; this one reads layout {LAYOUT}. Update it."
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite raises into a sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UsageError(
                f"{self.path} cannot be used now ({error}). See that no other process holds it, and that the disk "
                "has room."
            ) from error
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{self.path} is damaged ({error}). Restore it from a copy.") from error

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        """Change the file as a whole, or not at all."""
        with self._told():
            try:
                self._db.execute(f"BEGIN {kind}")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite has rolled back by itself where the disk is full
                    self._db.execute("ROLLBACK")
                raise
