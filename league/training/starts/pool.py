"""The pool of starts, in one SQLite file that survives a kill.

The sums of a start's matches are kept by iteration, so a resumed run forgets exactly what it plays again, and nothing
is counted twice. Each iteration has a checksum over all iterations up to it, by which a checkpoint identifies the pool.

    starts(name, game, seed, task, prefix, size, parent, author, born)    prefix: JSON, the actions; where they opened
                                                                           submatches, [actions, attempts]
    plays(iteration, name, plays, total, squares, surprise, best)          see ``measured.StartSums``
    iterations(iteration, checksum)
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from arena.records import Episode, Start
from games.common.sqlite_file import SqliteFile, SqliteLayout
from games.spec import Attempt, GameSpec
from league.training.starts.measured import StartSums, StoredStart, sums_of

POOL_FILE = "starts.sqlite"  # in the folder of a run
_FIRST = ""  # the checksum before the first iteration

_LAYOUT = SqliteLayout(
    application=0x6C737472,  # "lstr"
    version=1,
    name="one of starts",
    if_foreign="Give another path, or move it.",
    if_damaged="",
    tables="""
CREATE TABLE IF NOT EXISTS starts (
    name TEXT PRIMARY KEY, game TEXT NOT NULL, seed INTEGER NOT NULL, task TEXT NOT NULL, prefix TEXT NOT NULL,
    size INTEGER NOT NULL, parent TEXT NOT NULL, author TEXT NOT NULL, born INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS plays (
    iteration INTEGER NOT NULL, name TEXT NOT NULL REFERENCES starts(name), plays REAL NOT NULL, total REAL NOT NULL,
    squares REAL NOT NULL, surprise REAL NOT NULL, best REAL NOT NULL, PRIMARY KEY (iteration, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS iterations (iteration INTEGER PRIMARY KEY, checksum TEXT NOT NULL);
""",
)
_BORN = "SELECT name, game, seed, task, prefix, size, parent, author, born FROM starts"
_PLAYED = "SELECT name, plays, total, squares, surprise, best FROM plays"


class StartPool(SqliteFile):
    """The file at ``path``, made if it is missing; see ``SqliteFile`` for what it refuses.

    A start's figures keep a share ``forgetting`` of their weight from one of its iterations to the next.
    """

    def __init__(self, path: Path, forgetting: float = 1.0, *, reads: bool = False) -> None:
        self._forgetting = forgetting
        if not reads:
            path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, _LAYOUT, create=not reads, reads=reads)
        self._load()

    def games(self) -> list[str]:
        """Return the games of the starts, sorted."""
        return sorted({stored.start.game for stored in self._born.values()})

    def starts(self, game: str) -> list[StoredStart]:
        """Return a game's starts with their figures, in the order of their names."""
        return [self._stored(name) for name in sorted(self._born) if self._born[name].start.game == game]

    def add(self, starts: Iterable[StoredStart]) -> int:
        """Store starts that are not there yet, and return how many were new; a stored one never changes.

        Starts of iterations above 0 must be added with ``record``, which keeps the checksum.
        """
        new = {start.name: start for start in starts if start.name not in self._born}
        with self._transaction("IMMEDIATE"):
            self._insert(new)
        self._born |= new
        return len(new)

    def record(
        self,
        episodes: Iterable[Episode],
        specs: Mapping[str, GameSpec],
        iteration: int,
        made: Iterable[StoredStart] = (),
    ) -> None:
        """Count an iteration's matches from stored starts and store the starts that it made, atomically.

        Raises ValueError for a start that the pool lacks, and for an iteration that is already recorded.
        """
        values = values_by_start(episodes, specs)
        new = {start.name: start for start in made if start.name not in self._born}
        if unknown := sorted(values.keys() - self._born.keys() - new.keys()):
            raise ValueError(f"the pool has no start {unknown[0]}")
        sums = {name: sums_of(of_start, self._mean(name)) for name, of_start in sorted(values.items())}
        with self._transaction("IMMEDIATE"):
            if self._row("SELECT 1 FROM iterations WHERE iteration >= ?", iteration):
                raise ValueError(f"iteration {iteration} of the starts is recorded already")
            self._insert(new)
            rows = [(iteration, name, *start_sums) for name, start_sums in sums.items()]
            self._db.executemany("INSERT INTO plays VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            checksum = self._checksum(iteration, self.digest(iteration - 1))
            self._db.execute("INSERT INTO iterations VALUES (?, ?)", (iteration, checksum))
        self._born |= new
        for name, start_sums in sums.items():
            self._count(name, start_sums, iteration)

    def digest(self, iteration: int) -> str:
        """Return the checksum of everything up to an iteration; before the first one, of the initial pool."""
        query = "SELECT checksum FROM iterations WHERE iteration <= ? ORDER BY iteration DESC LIMIT 1"
        row = self._row(query, iteration)
        return self._checksum(0, _FIRST) if row is None else str(row[0])

    def recomputed_digest(self, iteration: int) -> str:
        """Return the checksum computed again from the stored rows: it differs where something was changed or lost."""
        with self._transaction():
            done = self._db.execute("SELECT iteration FROM iterations WHERE iteration <= ? ORDER BY 1", (iteration,))
            checksum = self._checksum(0, _FIRST)
            for (number,) in done.fetchall():
                checksum = self._checksum(number, checksum)
        return checksum

    def discard_after(self, iteration: int) -> None:
        """Forget the plays and the starts of later iterations: a resumed run makes them again."""
        with self._transaction("IMMEDIATE"):
            self._db.execute("DELETE FROM plays WHERE iteration > ?", (iteration,))
            self._db.execute("DELETE FROM iterations WHERE iteration > ?", (iteration,))
            self._db.execute("DELETE FROM starts WHERE born > ?", (iteration,))
        self._load()

    def _load(self) -> None:
        self._sums: dict[str, StartSums] = {}
        self._plays: dict[str, int] = {}
        self._last: dict[str, int] = {}
        with self._transaction():
            try:
                born = [_from_row(row) for row in self._db.execute(_BORN)]
            except (ValueError, TypeError) as error:
                raise sqlite3.DatabaseError(str(error)) from error
            plays = self._db.execute(f"{_PLAYED.replace('name', 'iteration, name', 1)} ORDER BY iteration, name")
            rows = plays.fetchall()
        self._born = {start.name: start for start in born}
        for iteration, name, *fields in rows:
            self._count(name, StartSums(*fields), iteration)

    def _count(self, name: str, sums: StartSums, iteration: int) -> None:
        before = self._sums.get(name)
        self._sums[name] = sums if before is None else before.then(sums, self._forgetting)
        self._plays[name] = self._plays.get(name, 0) + int(sums.plays)
        self._last[name] = iteration

    def _mean(self, name: str) -> float | None:
        return self._sums[name].mean if name in self._sums else None

    def _stored(self, name: str) -> StoredStart:
        sums = self._sums.get(name)
        if sums is None:
            return self._born[name]
        return self._born[name]._replace(
            plays=self._plays[name],
            rate=sums.mean,
            spread=sums.spread,
            surprise=sums.surprise / sums.plays,
            best=sums.best,
            last=self._last[name],
        )

    def _insert(self, starts: Mapping[str, StoredStart]) -> None:
        rows = [_to_row(name, start) for name, start in starts.items()]
        self._db.executemany("INSERT INTO starts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def _checksum(self, iteration: int, before: str) -> str:
        """Return the checksum of an iteration's starts and plays, chained to the one before."""
        starts = self._db.execute(f"{_BORN} WHERE born = ? ORDER BY name", (iteration,)).fetchall()
        plays = self._db.execute(f"{_PLAYED} WHERE iteration = ? ORDER BY name", (iteration,)).fetchall()
        content = json.dumps([before, iteration, starts, plays], separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


def values_by_start(episodes: Iterable[Episode], specs: Mapping[str, GameSpec]) -> dict[str, list[float]]:
    """Return the values of matches by the name of their start: the first trained seat's return in the game's range.

    Raises ValueError for a return that is not finite.
    """
    values: dict[str, list[float]] = {}
    for episode in episodes:
        request = episode.request
        if request.start and any(request.trained):
            spec, seat_return = specs[request.game], episode.returns[request.trained.index(True)]
            if not math.isfinite(seat_return):
                raise ValueError(f"match {request.index}: {episode.returns} are not all finite")
            width = spec.max_return - spec.min_return
            values.setdefault(request.start, []).append((seat_return - spec.min_return) / width if width else 0.0)
    return values


def _to_row(name: str, stored: StoredStart) -> tuple[str | int, ...]:
    start = stored.start
    prefix = json.dumps([start.prefix, start.attempts] if start.attempts else start.prefix)
    return name, start.game, start.seed, start.task, prefix, stored.size, stored.parent, stored.author, stored.born


def _from_row(row: Sequence[str | int]) -> StoredStart:
    """Return the start of a row. Raises ValueError if it does not match its name."""
    name, game, seed, task, prefix, size, parent, author, born = row
    held = json.loads(str(prefix))
    actions, attempts = held if isinstance(held, list) and held and isinstance(held[0], list) else (held, ())
    start = Start(str(game), int(seed), str(task), tuple(actions), tuple([Attempt(*one) for one in attempts]))
    if start.name != name:
        raise ValueError(f"the start {name} holds what is named {start.name}")
    return StoredStart(start, int(size), str(parent), str(author), int(born))
