"""Stored matches as whole columns: what is worked out from a million matches begins here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 500_000  # matches read at once: SQLite makes no string of more than a gigabyte


class Cast(NamedTuple):
    """What many matches of a game share."""

    id: int  # in the file
    rule: str  # the matchmaking rule that drew them
    roles: tuple[str | None, ...]  # None: the seat had no turn  # [seats]


class Columns(NamedTuple):
    """One game's matches in the order of their indices; M matches, S seats, N players, D deals."""

    players: tuple[str, ...]  # sorted  # [N]
    seeds: Ints  # the different deals', sorted  # [D]
    deal: Ints  # indices into seeds  # [M]
    seated: Ints  # indices into players  # [M, S]
    returns: Floats  # in the game's units  # [M, S]


class Origins(NamedTuple):
    """Where those matches come from, in the same order."""

    indices: Ints  # [M]
    iteration: Ints  # [M]
    cast: Ints  # indices into casts  # [M]
    casts: list[Cast]


def read_casts(database: sqlite3.Connection, game: str) -> list[Cast]:
    """Return a game's casts by their ids."""
    rows = database.execute("SELECT id, rule, roles FROM casts WHERE game = ? ORDER BY id", (game,))
    return [Cast(number, rule, tuple(json.loads(roles))) for number, rule, roles in rows]


def read_columns(database: sqlite3.Connection, game: str) -> Columns:
    """Read a game's matches. Raises ValueError for a file that contradicts itself."""
    casts = read_casts(database, game)
    deals, players, returns = _texts(database, casts, ("deal", "players", "returns"))
    seeds, deal = np.unique(np.fromstring(deals, np.int64, sep=","), return_inverse=True)
    ids, gains = np.fromstring(players, np.int64, sep=","), np.fromstring(returns, np.float64, sep=",")
    seats = len(casts[0].roles) if casts else 1
    if not len(ids) == len(gains) == len(deal) * seats:
        raise ValueError(f"not every match of {game} has {seats} players and returns")
    found = np.flatnonzero(np.bincount(ids)).tolist()
    named = dict(database.execute("SELECT id, name FROM players"))
    if not set(found) <= set(named):
        raise ValueError(f"not every player of {game} has a name")
    by_name = sorted(found, key=lambda number: str(named[number]))
    place = np.zeros(max(found, default=0) + 1, np.int64)
    place[by_name] = np.arange(len(by_name))
    names = tuple(str(named[number]) for number in by_name)
    return Columns(names, seeds, deal, place[ids].reshape(-1, seats), gains.reshape(-1, seats))


def read_origins(database: sqlite3.Connection, game: str) -> Origins:
    """Read where a game's matches come from."""
    casts = read_casts(database, game)
    texts = _texts(database, casts, ("number", "iteration", "cast_id"))
    indices, iteration, cast = (np.fromstring(text, np.int64, sep=",") for text in texts)
    return Origins(indices, iteration, np.searchsorted([one.id for one in casts], cast), casts)


def _texts(database: sqlite3.Connection, casts: Sequence[Cast], fields: Sequence[str]) -> list[str]:
    """Return fields of the matches of some casts, each as one text with commas, in the order of their indices.

    SQLite writes the texts and numpy reads them, which is four times as fast as row by row.
    """
    texts = ", ".join(f"group_concat({field})" for field in fields)
    ids = ", ".join(str(cast.id) for cast in casts)
    query = f"SELECT {texts} FROM matches WHERE number >= ? AND number < ? AND cast_id IN ({ids})"
    chunks: list[tuple[str | None, ...]] = []
    start, following = 0, "SELECT min(number) FROM matches WHERE number >= ?"
    while (first := database.execute(following, (start,)).fetchone()[0]) is not None:
        start = first + CHUNK
        chunks.append(database.execute(query, (first, start)).fetchone())
    return [",".join(chunk[place] or "" for chunk in chunks if chunk[place]) for place in range(len(fields))]
