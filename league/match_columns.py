"""Stored matches as whole columns: what is worked out from a million matches begins here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 500_000  # matches read at once: SQLite makes no string of more than a gigabyte
_FIELDS = ("number", "iteration", "cast_id", "deal", "players", "returns")


class Cast(NamedTuple):
    """What many matches of a game share."""

    id: int  # in the file
    rule: str  # the matchmaking rule that drew them
    roles: tuple[str | None, ...]  # None: the seat had no turn  # [seats]


class Columns(NamedTuple):
    """One game's matches in the order of their indices; M matches, S seats, N players."""

    players: tuple[str, ...]  # sorted  # [N]
    indices: Ints  # [M]
    iteration: Ints  # [M]
    cast: Ints  # place in the game's casts  # [M]
    deal: Ints  # deal seeds  # [M]
    seated: Ints  # indices into players  # [M, S]
    returns: Floats  # in the game's units  # [M, S]


def read_casts(database: sqlite3.Connection, game: str) -> list[Cast]:
    """Return a game's casts by their ids."""
    rows = database.execute("SELECT id, rule, roles FROM casts WHERE game = ? ORDER BY id", (game,))
    return [Cast(number, rule, tuple(json.loads(roles))) for number, rule, roles in rows]


def read_columns(database: sqlite3.Connection, casts: Sequence[Cast]) -> Columns:
    """Read the matches of a game, whose casts are given. Raises ValueError for a file that contradicts itself.

    SQLite writes each column as one text and numpy reads it: four times as fast as row by row.
    """
    index, iteration, cast, deal, players, returns = _numbers(database, [one.id for one in casts])
    seats = len(casts[0].roles) if casts else 1
    if len({len(index), len(iteration), len(cast), len(deal)}) > 1 or not (
        len(players) == len(returns) == len(index) * seats
    ):
        raise ValueError(f"not every match has {seats} players and returns")
    names = dict(database.execute("SELECT id, name FROM players"))
    ids, where = np.unique(players, return_inverse=True)
    by_name = sorted(range(len(ids)), key=lambda place: str(names[int(ids[place])]))
    rank = np.argsort(np.array(by_name, dtype=np.int64))
    order = np.argsort(index, kind="stable")  # SQLite promises none
    return Columns(
        players=tuple(str(names[int(ids[place])]) for place in by_name),
        indices=index[order],
        iteration=iteration[order],
        cast=np.searchsorted([one.id for one in casts], cast[order]),
        deal=deal[order],
        seated=rank[where].reshape(-1, seats)[order],
        returns=returns.reshape(-1, seats)[order],
    )


def _numbers(database: sqlite3.Connection, casts: Sequence[int]) -> list[NDArray[Any]]:
    """Return every field of the matches of some casts as one flat array."""
    texts = ", ".join(f"group_concat({field})" for field in _FIELDS)
    wanted = f"SELECT * FROM matches WHERE number > ? AND cast_id IN ({', '.join(map(str, casts))})"
    query = f"SELECT max(number), {texts} FROM ({wanted} ORDER BY number LIMIT {CHUNK})"
    chunks: list[tuple[str, ...]] = []
    last = -1
    while (found := database.execute(query, (last,)).fetchone())[0] is not None:
        last, *chunk = found
        chunks.append(tuple(chunk))
    return [
        np.fromstring(
            ",".join(chunk[place] for chunk in chunks), np.float64 if field == "returns" else np.int64, sep=","
        )
        for place, field in enumerate(_FIELDS)
    ]
