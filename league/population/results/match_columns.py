"""Stored matches as columns, from which sums over millions of matches are computed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.files import parse_json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Types of a batch's stored columns, little-endian on every machine; players and returns are match by match.
_TYPES = {
    "numbers": "<i8",  # indices  # [M]
    "casts": "<i4",  # ids  # [M]
    "deals": "<i8",  # seeds  # [M]
    "players": "<i4",  # ids  # [M, S]
    "returns": "<f8",  # in the game's units  # [M, S]
}
Batch = dict[str, bytes]  # by the names above
MOST_PLAYERS = 2**24  # the largest id of one: memory grows with it


class StoredCast(NamedTuple):
    """The rule and roles that many matches of a game share; one row of the table ``casts``."""

    id: int  # in the file
    rule: str  # the matchmaking rule that drew them
    roles: tuple[str | None, ...]  # None: the seat had no turn  # [seats]


class Columns(NamedTuple):
    """One game's matches in the order of their indices; M matches, S seats, N players."""

    players: tuple[str, ...]  # sorted  # [N]
    deal: Ints  # seeds  # [M]
    seated: Ints  # indices into players  # [M, S]
    returns: Floats  # in the game's units  # [M, S]


class Origins(NamedTuple):
    """The iteration and the cast of each match, in the order of ``Columns``."""

    indices: Ints  # [M]
    iteration: Ints  # [M]
    cast: Ints  # indices into casts  # [M]
    casts: list[StoredCast]


def read_casts(database: sqlite3.Connection, game: str) -> list[StoredCast]:
    """Return a game's casts by their ids. Raises sqlite3.DatabaseError for what is no list of a role for each seat."""
    rows = database.execute("SELECT id, rule, roles FROM casts WHERE game = ? ORDER BY id", (game,)).fetchall()
    casts = [StoredCast(number, str(rule), _read_roles(roles)) for number, rule, roles in rows]
    if len({len(cast.roles) for cast in casts}) > 1:
        raise sqlite3.DatabaseError(f"not every match of {game} has {len(casts[0].roles)} players")
    return casts


def _read_roles(text: str) -> tuple[str | None, ...]:
    try:
        roles = parse_json(text)
    except (ValueError, TypeError):
        roles = None
    if not (isinstance(roles, list) and roles and all(role is None or isinstance(role, str) for role in roles)):
        raise sqlite3.DatabaseError(f"{str(text)[:40]!r} is no list of roles")
    return tuple(roles)


def to_batch(**columns: Sequence[float] | Sequence[Sequence[float]]) -> Batch:
    """Return one game's matches as packed columns."""
    return {name: np.array(columns[name], dtype=kind).tobytes() for name, kind in _TYPES.items()}


def read_indices(database: sqlite3.Connection) -> Ints:
    """Return the index of every match of the file, in the order in which they were added.

    Raises sqlite3.DatabaseError for a file that contradicts itself, as all that reads here.
    """
    return _joined(database.execute("SELECT numbers FROM batches ORDER BY id"), ["numbers"])[0]


def largest_id(column: bytes, name: str) -> int:
    """Return the largest of a batch's packed ids; 0 of none. Raises ValueError for a column that is cut short."""
    return int(np.frombuffer(column, _TYPES[name]).max(initial=0))


def read_columns(database: sqlite3.Connection, game: str, iteration: int | None = None) -> Columns:
    """Read a game's matches, of one iteration or of all."""
    casts = read_casts(database, game)
    numbers, deals, ids, returns = _read(database, game, ("numbers", "deals", "players", "returns"), iteration)
    seats = len(casts[0].roles) if casts else 1
    if not len(ids) == len(returns) == len(deals) * seats == len(numbers) * seats:
        raise sqlite3.DatabaseError(f"not every match of {game} has {seats} players and returns")
    if not np.isfinite(returns).all():
        raise sqlite3.DatabaseError(f"not every return of {game} is finite")
    names = dict(database.execute("SELECT id, name FROM players"))
    known = ids.min(initial=0) >= 0 and ids.max(initial=0) <= MOST_PLAYERS
    present = np.flatnonzero(np.bincount(ids)).tolist() if known else []
    if not (known and set(present) <= set(names)):
        raise sqlite3.DatabaseError(f"not every player of {game} has a name")
    by_name = sorted(present, key=lambda player: str(names[player]))
    index = np.zeros(max(present, default=0) + 1, np.int64)
    index[by_name] = np.arange(len(by_name))
    seated, gains = index[ids].reshape(-1, seats), returns.reshape(-1, seats)
    if (numbers[1:] < numbers[:-1]).any():  # they were not added in the order of their indices
        order = np.argsort(numbers, kind="stable")
        deals, seated, gains = deals[order], seated[order], gains[order]
    return Columns(tuple(str(names[player]) for player in by_name), deals, seated, gains)


def read_origins(database: sqlite3.Connection, game: str, iteration: int | None = None) -> Origins:
    """Read the iteration and the cast of a game's matches, of one iteration or of all."""
    casts = read_casts(database, game)
    numbers, ids = _read(database, game, ("numbers", "casts"), iteration)
    sizes = _rows(database, game, ("iteration", "matches"), iteration).fetchall()
    whole = all(isinstance(value, int) for size in sizes for value in size) and all(n >= 0 for _, n in sizes)
    if not (whole and len(numbers) == len(ids) == sum(n for _, n in sizes)):
        raise sqlite3.DatabaseError(f"not every match of {game} has an iteration and a cast")
    when = np.repeat(*np.array(sizes, np.int64).reshape(-1, 2).T)
    known = np.array([cast.id for cast in casts], np.int64)
    if not np.isin(ids, known).all():
        raise sqlite3.DatabaseError(f"a match of {game} has a cast that is not there")
    order = np.argsort(numbers, kind="stable")
    return Origins(numbers[order], when[order], np.searchsorted(known, ids[order]), casts)


def usual_roles(origins: Origins) -> tuple[str, ...]:
    """Return the role of each seat in the latest match in which it had a turn; "seat 0" if there is none."""
    latest = dict(zip(origins.cast.tolist(), origins.indices.tolist(), strict=True))
    names: list[str] = []
    for cast in sorted(latest, key=latest.__getitem__):
        roles = origins.casts[cast].roles
        names = names or [f"seat {seat}" for seat in range(len(roles))]
        names = [role or earlier for role, earlier in zip(roles, names, strict=True)]
    return tuple(names)


def _read(
    database: sqlite3.Connection, game: str, names: Sequence[str], iteration: int | None = None
) -> list[NDArray[Any]]:
    """Return columns of a game's matches, in the order in which they were added."""
    return _joined(_rows(database, game, names, iteration), names)


def _rows(database: sqlite3.Connection, game: str, names: Sequence[str], iteration: int | None) -> sqlite3.Cursor:
    """Return fields of a game's batches, of one iteration or of all, in the order in which they were added."""
    chosen, values = ("", (game,)) if iteration is None else (" AND iteration = ?", (game, iteration))
    return database.execute(f"SELECT {', '.join(names)} FROM batches WHERE game = ?{chosen} ORDER BY id", values)


def _joined(batches: Iterable[Sequence[Any]], names: Sequence[str]) -> list[NDArray[Any]]:
    """Return columns, each as one array, from batches that have a part of each; no part is in memory twice."""
    columns = {name: bytearray() for name in names}
    arrays = []
    try:
        for batch in batches:
            for name, part in zip(names, batch, strict=True):
                columns[name] += part
        for name in names:
            arrays.append(np.frombuffer(columns[name], _TYPES[name]))
    except (ValueError, TypeError):
        raise sqlite3.DatabaseError(f"a column of {name} is cut short") from None
    return arrays
