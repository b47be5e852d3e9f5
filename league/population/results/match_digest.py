"""The SHA-256 of stored matches, in the order in which they were added: what a checkpoint knows its matches by."""

from __future__ import annotations

import hashlib
import sqlite3

from league.population.results.match_columns import largest_id

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
