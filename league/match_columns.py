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

# How the columns of a batch are stored, little-endian wherever they are written; players and returns match by match.
_TYPES = {
    "numbers": "<i8",  # indices  # [M]
    "casts": "<i4",  # ids  # [M]
    "deals": "<i8",  # seeds  # [M]
    "players": "<i4",  # ids  # [M, S]
    "returns": "<f8",  # in the game's units  # [M, S]
}
Batch = dict[str, bytes]  # by the names above


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


def to_batch(**columns: Sequence[float] | Sequence[Sequence[float]]) -> Batch:
    """Return one game's matches as they are stored."""
    return {name: np.array(columns[name], dtype=kind).tobytes() for name, kind in _TYPES.items()}


def read_indices(database: sqlite3.Connection) -> Ints:
    """Return the index of every match of the file, in the order in which they were added."""
    return _joined([row[0] for row in database.execute("SELECT numbers FROM batches ORDER BY id")], "numbers")


def read_columns(database: sqlite3.Connection, game: str) -> Columns:
    """Read a game's matches. Raises ValueError for a file that contradicts itself."""
    casts = read_casts(database, game)
    numbers, deals, ids, returns = _read(database, game, ("numbers", "deals", "players", "returns"))
    seats = len(casts[0].roles) if casts else 1
    if not len(ids) == len(returns) == len(deals) * seats == len(numbers) * seats:
        raise ValueError(f"not every match of {game} has {seats} players and returns")
    named = dict(database.execute("SELECT id, name FROM players"))
    found = np.flatnonzero(np.bincount(ids)).tolist()
    if not set(found) <= set(named):
        raise ValueError(f"not every player of {game} has a name")
    by_name = sorted(found, key=lambda player: str(named[player]))
    place = np.zeros(max(found, default=0) + 1, np.int64)
    place[by_name] = np.arange(len(by_name))
    order = np.argsort(numbers, kind="stable")
    seeds, deal = np.unique(deals[order], return_inverse=True)
    seated, gains = place[ids].reshape(-1, seats), returns.reshape(-1, seats)
    return Columns(tuple(str(named[player]) for player in by_name), seeds, deal, seated[order], gains[order])


def read_origins(database: sqlite3.Connection, game: str) -> Origins:
    """Read where a game's matches come from."""
    casts = read_casts(database, game)
    numbers, ids = _read(database, game, ("numbers", "casts"))
    sizes = database.execute("SELECT iteration, matches FROM batches WHERE game = ? ORDER BY id", (game,)).fetchall()
    iteration = np.repeat(*np.array(sizes, np.int64).reshape(-1, 2).T)
    order = np.argsort(numbers, kind="stable")
    return Origins(numbers[order], iteration[order], np.searchsorted([one.id for one in casts], ids[order]), casts)


def usual_roles(origins: Origins) -> tuple[str, ...]:
    """Return the role of each seat in the latest match in which it had a turn; "seat 0" if there is none."""
    latest = dict(zip(origins.cast.tolist(), origins.indices.tolist(), strict=True))
    names: list[str] = []
    for cast in sorted(latest, key=latest.__getitem__):
        own = origins.casts[cast].roles
        known = names or [f"seat {seat}" for seat in range(len(own))]
        names = [new or old for new, old in zip(own, known, strict=True)]
    return tuple(names)


def _read(database: sqlite3.Connection, game: str, names: Sequence[str]) -> list[NDArray[Any]]:
    """Return columns of a game's matches, in the order in which they were added."""
    rows = database.execute(f"SELECT {', '.join(names)} FROM batches WHERE game = ? ORDER BY id", (game,)).fetchall()
    return [_joined([row[place] for row in rows], name) for place, name in enumerate(names)]


def _joined(parts: Sequence[bytes], name: str) -> NDArray[Any]:
    return np.frombuffer(b"".join(parts), _TYPES[name])
