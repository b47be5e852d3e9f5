"""A store in one SQLite file. It refuses foreign files, changes are transactions, and errors are sentences."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from games.common.errors import DamagedFile, UsageError

WAIT = 60.0  # seconds for another process to finish its transaction
PAUSE = 0.01  # seconds between two attempts to open a file


class ForeignFile(UsageError):
    """An SQLite file, but one of another store or an empty one."""


class HeldFile(UsageError):
    """An SQLite file whose lock another process has held for longer than was to be waited."""


class SqliteLayout(NamedTuple):
    """What a store's file holds, and what to do about a file that is not so."""

    application: int  # SQLite's application_id
    version: int  # of the tables
    tables: str  # the statements that make them
    name: str  # of such a file, after "is not"
    if_foreign: str
    if_damaged: str  # empty: the caller, who knows the alternatives, says it

    def script(self) -> str:
        """Return the statements that lay a file out, all of it or nothing."""
        return f"""
            BEGIN IMMEDIATE;
            {self.tables}
            PRAGMA application_id = {self.application};
            PRAGMA user_version = {self.version};
            COMMIT;
        """


class SqliteFile:
    """The file at ``path``; a context manager that closes it. What was committed has been forced to disk.

    Opened with ``create``, a file that is missing or empty is laid out, in WAL mode. Raises UsageError for one that is
    damaged, foreign, of a newer version, or held by another process for more than a minute, whenever that shows.
    With ``reads`` it may be where nothing can be written, as on a read-only disk. Once it is open, an operation waits
    at most ``wait`` seconds (WAIT) for another process before it raises HeldFile.
    """

    def __init__(
        self, path: Path, layout: SqliteLayout, *, create: bool = False, reads: bool = False, wait: float | None = None
    ) -> None:
        self.path = path
        self._layout = layout
        self._copies = ExitStack()
        deadline = time.monotonic() + WAIT
        with ExitStack() as stack, self._sqlite_errors():
            stack.callback(self._copies.close)
            self._uri = self._readable_uri() if reads and not _writable(path) else ""
            while not self._opened(create):
                if time.monotonic() >= deadline:
                    raise HeldFile(f"{path} cannot be used now (database is locked). {self._advice()}")
                time.sleep(PAUSE)
            self._db.execute(f"PRAGMA busy_timeout = {(WAIT if wait is None else wait) * 1000:.0f}")
            stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was committed is on disk already."""
        self._db.close()
        self._copies.close()

    def check_integrity(self) -> None:
        """Read the whole file; raise DamagedFile where SQLite finds that it contradicts itself."""
        with self._sqlite_errors():
            verdict = str(self._row("PRAGMA integrity_check(1)")[0])
        if verdict != "ok":
            raise DamagedFile(self.path, " ".join(verdict.split()), self._layout.if_damaged)

    def _readable_uri(self) -> str:
        """Return by which URI to read a file that cannot be written.

        SQLite reads a file in WAL mode only where it may write beside it, or where it is assured that nobody writes
        ("immutable"); then it leaves out the log, so a file that has one is read in a copy.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        if not log.exists() or not log.stat().st_size:
            return f"file:{quote(str(self.path.absolute()))}?immutable=1"
        folder = Path(self._copies.enter_context(tempfile.TemporaryDirectory(prefix="league-")))
        for file in (self.path, log):
            shutil.copyfile(file, folder / file.name)
        return f"file:{quote(str(folder / self.path.name))}"

    def _opened(self, create: bool) -> bool:
        """Open the file; return whether that went through.

        SQLite refuses at once, whatever its timeout, where it sees two connections that would wait for each other, as
        two that change a new file to WAL mode do. The one that is refused lets go of its locks and tries again.
        """
        target = self._uri or self.path
        self._db = sqlite3.connect(target, timeout=WAIT, isolation_level=None, uri=bool(self._uri))
        try:
            self._check_layout(create)
        except sqlite3.OperationalError as error:
            self._db.close()
            if _held(error):
                return False
            raise
        except BaseException:
            self._db.close()
            raise
        return True

    def _check_layout(self, create: bool) -> None:
        """Check that the file has the layout, or give it to an empty one."""
        with self._as_a_whole():  # one state of the file: another process may be laying it out
            application, version = self._number("PRAGMA application_id"), self._number("PRAGMA user_version")
            tables = self._number("SELECT count(*) FROM sqlite_master")
        if create and application == version == tables == 0:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.executescript(self._layout.script())
        elif application != self._layout.application:
            raise ForeignFile(f"{self.path} is an SQLite file, but not {self._layout.name}. {self._layout.if_foreign}")
        elif version > self._layout.version:
            raise UsageError(
                f"{self.path} has the layout {version} of a newer league; this one reads layout "
                f"{self._layout.version}. Update it."
            )
        self._db.execute("PRAGMA synchronous = FULL")

    def _row(self, query: str, *arguments: str | int) -> Any:
        """Return a query's first row; None if it has none."""
        return self._db.execute(query, arguments).fetchone()

    def _number(self, query: str, *arguments: str | int) -> int:
        """Return the one number that a query gives."""
        return int(self._row(query, *arguments)[0])

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        """Turn what SQLite raises into a sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            kind = HeldFile if _held(error) else UsageError
            raise kind(f"{self.path} cannot be used now ({error}). {self._advice()}") from error
        except sqlite3.ProgrammingError:  # ours, such as asking a closed file
            raise
        except sqlite3.DatabaseError as error:
            raise DamagedFile(self.path, str(error), self._layout.if_damaged) from error

    def _advice(self) -> str:
        """Return what to do where the file cannot be used."""
        if self.path.exists() and not _writable(self.path):
            return "It, or its folder, is read-only: make both writable, or use a copy of them."
        return "See that no other process holds it, and that the disk has room."

    @contextmanager
    def _transaction(self, kind: str = "DEFERRED") -> Iterator[None]:
        """Read one state of the file, or change it (IMMEDIATE) as a whole or not at all."""
        with self._sqlite_errors(), self._as_a_whole(kind):
            yield

    @contextmanager
    def _as_a_whole(self, kind: str = "DEFERRED") -> Iterator[None]:
        """Do the same, but leave errors as SQLite raises them."""
        try:
            self._db.execute(f"BEGIN {kind}")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite has rolled back by itself where the disk is full
                self._db.execute("ROLLBACK")
            raise


def _held(error: sqlite3.OperationalError) -> bool:
    """Return whether another process's lock is the cause."""
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _writable(path: Path) -> bool:
    """Return whether a file and its folder can be written."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
