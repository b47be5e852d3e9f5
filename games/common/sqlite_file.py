"""A store in one SQLite file: it refuses files that are not its own, is changed as a whole, and fails in sentences."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from games.common.errors import UsageError

WAIT = 60.0  # seconds for another process to finish its transaction
PAUSE = 0.01  # seconds between two attempts to open a file


class SqliteLayout(NamedTuple):
    """What a store's file holds, and what to do about a file that is not so."""

    application: int  # SQLite's application_id
    version: int  # of the tables
    tables: str  # the statements that make them
    name: str  # of such a file, after "is not"
    if_foreign: str
    if_damaged: str

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
    """

    def __init__(self, path: Path, layout: SqliteLayout, *, create: bool = False) -> None:
        self.path = path
        self._layout = layout
        deadline = time.monotonic() + WAIT
        with self._sqlite_errors():
            while not self._opened(create):
                if time.monotonic() >= deadline:
                    raise sqlite3.OperationalError("database is locked")
                time.sleep(PAUSE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was committed is on disk already."""
        self._db.close()

    def _opened(self, create: bool) -> bool:
        """Open the file; return whether that went through.

        SQLite refuses at once, whatever its timeout, where it sees two connections that would wait for each other, as
        two that change a new file to WAL mode do. The one that is refused lets go of its locks and tries again.
        """
        self._db = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
        try:
            self._check_layout(create)
        except sqlite3.OperationalError as error:
            self._db.close()
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
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
            raise UsageError(f"{self.path} is an SQLite file, but not {self._layout.name}. {self._layout.if_foreign}")
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
            raise UsageError(
                f"{self.path} cannot be used now ({error}). See that no other process holds it, and that the disk "
                "has room."
            ) from error
        except sqlite3.ProgrammingError:  # ours, such as asking a closed file
            raise
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{self.path} is damaged ({error}). {self._layout.if_damaged}") from error

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
