"""Every finished match of a run or a tournament, in one SQLite file that a kill cannot harm.

Matches that are added together are one row of packed columns, and sums are computed from whole columns when they are
needed (``results.match_sums``). A row for every match made reading four times as slow. Stored sums would save nothing
at scale: 1,000 players that all meet have half a million pairs.

The file is in WAL mode with synchronous = FULL: a match that ``add`` returned from is on disk, and neither a
kill nor a power cut loses it (NORMAL would do for a kill alone; FULL costs 0.2 ms a call). One process writes,
any number read meanwhile, each from a state between two calls of ``add``.

    players(id, name)    casts(id, game, rule, roles)    roles: JSON, by seat, null for a seat without a turn
    batches(id, game, iteration, matches, numbers, casts, deals, players, returns)    see ``match_columns``
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arena.records import Episode
from games.common.sqlite_file import SqliteFile, SqliteLayout
from league.population.results import match_results, match_sums
from league.population.results.match_columns import (
    Columns,
    largest_id,
    read_columns,
    read_indices,
    read_origins,
    to_batch,
    usual_roles,
)
from league.population.results.match_sums import Cells, Pairs
from league.population.results.payoffs import Result

__all__ = ["STORE_FILE", "Cells", "MatchStore", "Pairs", "StoredMatch"]

STORE_FILE = "results.sqlite"  # in the folder of a run or of a tournament
VERSION = 1  # of the tables

_LAYOUT = SqliteLayout(
    application=0x6C656167,  # "leag"
    version=VERSION,
    name="one of matches",
    if_foreign="Give another path, or move it.",
    if_damaged="Restore it from a copy, or move it away and play again.",
    tables="""
CREATE TABLE IF NOT EXISTS players (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS casts (
    id INTEGER PRIMARY KEY, game TEXT NOT NULL, rule TEXT NOT NULL, roles TEXT NOT NULL, UNIQUE (game, rule, roles)
);
CREATE TABLE IF NOT EXISTS batches (
    id INTEGER PRIMARY KEY, game TEXT NOT NULL, iteration INTEGER NOT NULL, matches INTEGER NOT NULL,
    numbers BLOB NOT NULL, casts BLOB NOT NULL, deals BLOB NOT NULL, players BLOB NOT NULL, returns BLOB NOT NULL
);
""",
)


class StoredMatch(NamedTuple):
    """A finished match, as far as standings need it."""

    index: int  # type: ignore[assignment]  # unique in its file; hides tuple.index, which no record needs
    game: str
    deal_seed: int
    players: tuple[str, ...]  # [seats]
    roles: tuple[str, ...]  # [seats]
    returns: tuple[float, ...]  # in the game's units  # [seats]
    rule: str  # the matchmaking rule that drew it
    iteration: int


class MatchStore(SqliteFile):
    """The file of matches at ``path``; see ``SqliteFile`` for what it refuses.

    It is made if it is missing. With ``reads``, for readers only, it must exist, and may be in a folder that cannot be
    written.
    """

    def __init__(self, path: Path, *, reads: bool = False) -> None:
        self._indices: tuple[int, set[int]] | None = None  # of all matches, with the version of the file
        self._columns: dict[str, tuple[tuple[int, int], Columns]] = {}  # by game, with the state of the file
        self._digest, self._digested = MatchDigest(), -1  # the latter: up to which iteration
        if not reads:
            path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, _LAYOUT, create=not reads, reads=reads)

    def add(self, episodes: Iterable[Episode], iteration: int = 0) -> int:
        """Store matches in one transaction and return how many were new.

        A match whose index is there already is left as it is. Raises ValueError, and stores nothing, for a
        return that is not finite.
        """
        new: dict[int, Episode] = {}
        with self._transaction("IMMEDIATE"):
            version, stored = self._known()
            self._indices = None  # an interrupted caller does not know whether it was stored
            for episode in episodes:
                if not all(map(math.isfinite, episode.returns)):
                    raise ValueError(f"match {episode.request.index}: {episode.returns} are not all finite")
                if episode.request.index not in stored:
                    new.setdefault(episode.request.index, episode)
            by_game: dict[str, list[Episode]] = {}
            for episode in new.values():
                by_game.setdefault(episode.request.game, []).append(episode)
            for game, batch in by_game.items():
                self._add_batch(game, iteration, batch)
        stored.update(new)
        self._indices = version, stored
        return len(new)

    def digest(self, iteration: int) -> str:
        """Return the SHA-256 of all matches up to an iteration, which must not fall between calls."""
        self._digested = iteration
        with self._transaction():
            try:
                return self._digest.update(self._db, iteration)
            except (ValueError, TypeError) as error:
                raise sqlite3.DatabaseError(str(error)) from error

    def discard_after(self, iteration: int) -> None:
        """Remove the matches of later iterations: a resumed run plays them again."""
        with self._transaction("IMMEDIATE"):
            self._indices = None
            if iteration < self._digested:
                self._digest, self._digested = MatchDigest(), -1
            self._db.execute("DELETE FROM batches WHERE iteration > ?", (iteration,))

    def results(self) -> Iterator[Result]:
        """Yield each iteration's sums as ``payoffs.summarise`` gives them, the oldest iteration first."""
        with self._transaction():
            parts = [
                match_results.results(game, self._read(game), read_origins(self._db, game)) for game in self.games()
            ]
        yield from heapq.merge(*parts, key=lambda result: (result.iteration, result[:4]))

    def matches(self, game: str, *, iteration: int | None = None, players: Sequence[str] = ()) -> Iterator[StoredMatch]:
        """Yield a game's matches in the order of their indices, those of one iteration and with ``players`` in seats.

        A player that is named twice has two seats. A seat without a turn has its role in other matches.
        """
        with self._transaction():
            columns = self._read(game, iteration)
            origins = read_origins(self._db, game, iteration)
        if not len(origins.indices):
            return
        usual = usual_roles(origins)
        roles = [
            tuple(spoken or usual_role for spoken, usual_role in zip(cast.roles, usual, strict=True))
            for cast in origins.casts
        ]
        chosen = np.flatnonzero(_seats_all(columns, players))
        fields = (
            *(origins.indices[chosen], origins.iteration[chosen], origins.cast[chosen], columns.deal[chosen]),
            *(columns.seated[chosen], columns.returns[chosen]),
        )
        for index, when, cast, seed, seated, returns in zip(*(values.tolist() for values in fields), strict=True):
            names = tuple([columns.players[player] for player in seated])
            yield StoredMatch(index, game, seed, names, roles[cast], tuple(returns), origins.casts[cast].rule, when)

    def indices(self) -> set[int]:
        """Return the index of every match."""
        with self._sqlite_errors():
            return set(read_indices(self._db).tolist())

    def games(self) -> list[str]:
        """Return the games that have matches, sorted."""
        with self._sqlite_errors():
            return [game for (game,) in self._db.execute("SELECT DISTINCT game FROM batches ORDER BY game")]

    def count(self, game: str) -> int:
        """Return how many matches of a game there are."""
        with self._sqlite_errors():
            return self._number("SELECT coalesce(sum(matches), 0) FROM batches WHERE game = ?", game)

    def roles(self, game: str) -> tuple[str, ...]:
        """Return a game's roles by seat, those of the latest match in which the seat had a turn; "seat 0" if none."""
        with self._transaction():
            origins = read_origins(self._db, game)
        return usual_roles(origins)

    def cells(self, game: str) -> Cells:
        """Return a game's sums by line-up."""
        with self._transaction():
            return match_sums.cells(self._read(game))

    def pairs(self, game: str) -> Pairs:
        """Return a game's sums by two different players."""
        with self._transaction():
            return match_sums.pairs(self._read(game))

    def _add_batch(self, game: str, iteration: int, episodes: Sequence[Episode]) -> None:
        """Store matches of one game, none of which is there."""
        spoken = [_cast_of(episode) for episode in episodes]
        player_ids = self._ids("players", ["name"], {(name,) for one in episodes for name in one.request.players})
        rows = {cast: (game, cast[0], json.dumps(cast[1])) for cast in spoken}
        cast_ids = self._ids("casts", ["game", "rule", "roles"], rows.values())
        batch = to_batch(
            numbers=[episode.request.index for episode in episodes],
            casts=[cast_ids[rows[cast]] for cast in spoken],
            deals=[episode.request.deal_seed for episode in episodes],
            players=[[player_ids[player,] for player in episode.request.players] for episode in episodes],
            returns=[episode.returns for episode in episodes],
        )
        row = {"game": game, "iteration": iteration, "matches": len(episodes), **batch}
        places = ", ".join(f":{name}" for name in row)
        self._db.execute(f"INSERT INTO batches ({', '.join(row)}) VALUES ({places})", row)

    def _ids(self, table: str, fields: Sequence[str], rows: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
        """Return the id of each row of a table of names, new ones added."""
        ordered = sorted(rows)
        places, same = ", ".join("?" * len(fields)), " AND ".join(f"{field} = ?" for field in fields)
        self._db.executemany(f"INSERT OR IGNORE INTO {table} ({', '.join(fields)}) VALUES ({places})", ordered)
        query = f"SELECT id FROM {table} WHERE {same}"
        return {row: int(self._db.execute(query, row).fetchone()[0]) for row in ordered}

    def _known(self) -> tuple[int, set[int]]:
        """Return the version of the file and the index of every match, as far as possible from memory."""
        version = self._number("PRAGMA data_version")  # changes when another process has written
        if self._indices is None or self._indices[0] != version:
            return version, set(read_indices(self._db).tolist())
        return self._indices

    def _read(self, game: str, iteration: int | None = None) -> Columns:
        """Return a game's matches, of one iteration or of all; all are cached while the file does not change."""
        state = (self._number("PRAGMA data_version"), self._db.total_changes)
        if iteration is None and game in self._columns and self._columns[game][0] == state:
            return self._columns[game][1]
        columns = read_columns(self._db, game, iteration)
        if iteration is None:
            self._columns[game] = state, columns
        return columns


def _seats_all(columns: Columns, players: Sequence[str]) -> np.ndarray:
    """Return for each match whether all of ``players`` sit in it, each as often as it is named [M]."""
    fits = np.ones(len(columns.deal), bool)
    for player in {*players}:
        number = columns.players.index(player) if player in columns.players else -1
        fits &= (columns.seated == number).sum(axis=1) >= players.count(player)
    return fits


def _cast_of(episode: Episode) -> tuple[str, tuple[str | None, ...]]:
    """Return the rule, and the roles by seat; None for a seat that had no turn."""
    roles: list[str | None] = [None] * len(episode.request.players)
    for turn in episode.turns:
        roles[turn.seat] = turn.role
    return episode.request.rule, tuple(roles)


_ROWS = """
SELECT id, game, iteration, matches, numbers, casts, deals, players, returns FROM batches
WHERE id > ? AND iteration <= ? ORDER BY id
"""


class MatchDigest:
    """A digest that grows with its file: each batch of matches is read once.

    A name or a cast counts when the first batch refers to it, since others may be there that a killed process left.
    """

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._batch = self._player = self._cast = 0  # the greatest ids so far

    def update(self, database: sqlite3.Connection, iteration: int) -> str:
        """Add the batches up to ``iteration`` that are new; return the digest of all so far, "" of none.

        Raises ValueError for a batch that cannot be read.
        """
        for number, *facts, numbers, casts, deals, players, returns in database.execute(
            _ROWS, (self._batch, iteration)
        ):
            self._add(*facts)
            for column in (numbers, casts, deals, players, returns):
                self._add(len(column))
                self._sha256.update(column)
            used = largest_id(players, "players")
            self._add_rows(database, "SELECT id, name FROM players", self._player, used)
            self._player = max(self._player, used)
            used = largest_id(casts, "casts")
            self._add_rows(database, "SELECT id, game, rule, roles FROM casts", self._cast, used)
            self._cast = max(self._cast, used)
            self._batch = number
        return self._sha256.hexdigest() if self._batch else ""

    def _add_rows(self, database: sqlite3.Connection, query: str, after: int, last: int) -> None:
        for row in database.execute(f"{query} WHERE id > ? AND id <= ? ORDER BY id", (after, last)):
            self._add(*row)

    def _add(self, *values: str | int) -> None:
        self._sha256.update(repr(values).encode())
