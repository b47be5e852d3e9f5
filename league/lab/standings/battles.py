"""Other people's battles: a CSV of who met whom and who won, read without trust, as arrays in a canonical order.

One battle a line, with a header. Columns, in any order and case; others are passed over:

    model_a, model_b    the players; also player_a, player_b, or a, b, or first, second, or white, black
    winner              model_a, model_b, a name of the two, tie or draw; or, in its place or beside it,
    score               the first player's share of the battle, from 0 to 1
    game                what was played (optional): every game counts equally, however many battles it has
    deal                battles of one deal, question or prompt are not independent (optional): they are one cluster
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from games.common.text import plain

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST = ("model_a", "player_a", "a", "first", "white")
SECOND = ("model_b", "player_b", "b", "second", "black")
CLUSTER = ("deal", "question_id", "prompt_id", "cluster")
TIES = ("tie", "draw", "tie (bothbad)", "both", "1/2-1/2", "0.5")
MOST_BATTLES, MOST_PLAYERS, MOST_GAMES = 1_000_000, 200, 200
MOST_BYTES = 500_000_000  # of a file
LONGEST = 200  # characters of a name
ONE_GAME = "all"  # where a file has no games


class Battles(NamedTuple):
    """R battles among N players in G games; rows are sorted, so that equal files in another order are equal here."""

    players: tuple[str, ...]  # sorted  # [N]
    games: tuple[str, ...]  # sorted  # [G]
    first: Ints  # [R]
    second: Ints  # [R]
    score: Floats  # of the first: win 1, tie 1/2, loss 0  # [R]
    game: Ints  # [R]
    cluster: Ints  # battles that are not independent have one number, from 0 on  # [R]
    digest: str  # SHA-256 of what was read, whatever the order of its rows

    @property
    def weights(self) -> Floats:
        """Return weights that sum to R, and are equal in sum for every game [R]."""
        counts = np.bincount(self.game, minlength=len(self.games))
        return np.asarray(len(self.game) / (len(self.games) * counts[self.game]))


class _Row(NamedTuple):
    """One battle as it was written."""

    first: str
    second: str
    game: str
    cluster: str  # "" for one that stands alone
    score: float


def read_battles(path: str | Path) -> Battles:
    """Return the battles of a CSV file. Raises UsageError, with the line, for invalid battles and for too many."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(f"There is no file {plain(str(path))}: give a CSV of battles, such as battles.csv.")
    if file.stat().st_size > MOST_BYTES:
        raise UsageError(f"{plain(str(path))} has {file.stat().st_size:,} bytes; the limit is {MOST_BYTES:,}.")
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return battles_of(_records(lines, plain(file.name)), plain(file.name))


def battles_of(records: Iterable[Mapping[str, Any]], source: str = "The battles") -> Battles:
    """Return the battles of records whose keys are columns of a CSV. Raises UsageError as ``read_battles``."""
    rows: list[_Row] = []
    columns: _Columns | None = None
    for number, record in enumerate(records, start=2):  # line 1 is the header
        columns = columns or _columns(list(record), source)
        rows.append(_row(record, columns, f"{source}, line {number}"))
        if len(rows) > MOST_BATTLES:
            raise UsageError(f"{source} has more than {MOST_BATTLES:,} battles, which is the limit.")
    if not rows:
        raise UsageError(f"{source} has no battles: a header and one line for each battle are expected.")
    return _arrays(sorted(rows), source)


class _Columns(NamedTuple):
    """The names of the columns that are read; None for one that is not there."""

    first: str
    second: str
    winner: str | None
    score: str | None
    game: str | None
    cluster: str | None


def _records(lines: Iterable[str], source: str) -> Iterator[dict[str, str]]:
    """Yield the lines of a CSV by column. Raises UsageError for a file that is not CSV, or not text."""
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if len({*header}) < len(header):
            raise UsageError(f"{source} has two columns with the same name: {plain(', '.join(header))[:LONGEST]}.")
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise UsageError(
                    f"{source}, line {reader.line_num}: {len(fields)} fields, but the header has {len(header)}."
                )
            yield dict(zip(header, fields, strict=True))
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not text in UTF-8 ({error.reason}): save it as CSV in UTF-8.") from None
    except csv.Error as error:
        raise UsageError(f"{source}, line {reader.line_num}, is not CSV: {error}.") from None


def _columns(names: Sequence[str], source: str) -> _Columns:
    """Return which columns are read. Raises UsageError where players or results are missing."""
    known = {name.strip().lower(): name for name in names}

    def of(choices: Sequence[str]) -> str | None:
        return next((known[choice] for choice in choices if choice in known), None)

    first, second, winner, score = of(FIRST), of(SECOND), of(("winner",)), of(("score", "score_a"))
    if first is None or second is None or (winner is None and score is None):
        raise UsageError(
            f"{source} has the columns {plain(', '.join(names))[:LONGEST]}. The players are expected in model_a and "
            "model_b (or a and b), and the result in winner (model_a, model_b or tie) or in score (from 0 to 1)."
        )
    return _Columns(first, second, winner, score, of(("game",)), of(CLUSTER))


def _row(record: Mapping[str, Any], columns: _Columns, where: str) -> _Row:
    """Return one battle. Raises UsageError, with its line, for an invalid one."""
    first, second = (_name(record.get(column), where) for column in (columns.first, columns.second))
    if first == second:
        raise UsageError(f"{where}: {first} meets itself, which says nothing about its rating. Leave the line out.")
    game = ONE_GAME if columns.game is None else _name(record.get(columns.game), where)
    cluster = "" if columns.cluster is None else str(record.get(columns.cluster) or "").strip()[:LONGEST]
    return _Row(first, second, game, cluster, _score(record, columns, first, second, where))


def _name(value: Any, where: str) -> str:
    """Return a name that can be printed. Raises UsageError for an empty name, and for one that is too long."""
    name = plain(str(value if value is not None else "").strip()).replace("\n", " ").replace("\t", " ")
    if not name or len(name) > LONGEST:
        raise UsageError(f"{where}: a name of 1 to {LONGEST} characters is expected, not {name[:30]!r}.")
    return name


def _score(record: Mapping[str, Any], columns: _Columns, first: str, second: str, where: str) -> float:
    """Return the first player's share of a battle, from 0 to 1. Raises UsageError for anything else."""
    if columns.score is None:
        return _share_won(record, columns, first, second, where)
    named = columns.winner is not None and str(record.get(columns.winner) or "").strip()
    won = _share_won(record, columns, first, second, where) if named else None
    try:
        score = float(record.get(columns.score))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        score = math.nan
    if not 0.0 <= score <= 1.0:
        raise UsageError(f"{where}: a score from 0 to 1 is expected, not {record.get(columns.score)!r:.40}.")
    if won is not None and (won - 0.5) * (score - 0.5) <= 0.0 and won != score:
        raise UsageError(
            f"{where}: the winner is {plain(str(record.get(columns.winner or '')))[:40]!r}, but by the score, "
            f"{score:g} for {first}, it is another. Correct the line, or leave one of the two columns out."
        )
    return score


def _share_won(record: Mapping[str, Any], columns: _Columns, first: str, second: str, where: str) -> float:
    """Return 1 if the first player is the winner, 0 if the second is, 1/2 for a tie. Raises UsageError for neither."""
    written = plain(str(record.get(columns.winner or "") or "").strip())
    won = written.lower()
    if won in TIES:
        return 0.5
    if written == first or (won in (*FIRST, "1-0") and written != second):
        return 1.0
    if written == second or won in (*SECOND, "0-1"):
        return 0.0
    raise UsageError(
        f"{where}: the winner is {written[:40]!r}; {columns.first}, {columns.second}, tie, or one of the two names is "
        "expected."
    )


def _arrays(rows: Sequence[_Row], source: str) -> Battles:
    """Return sorted battles as arrays. Raises UsageError for too many players or games."""
    players = tuple(sorted({name for row in rows for name in (row.first, row.second)}))
    games = tuple(sorted({row.game for row in rows}))
    for kind, names, most in (("players", players, MOST_PLAYERS), ("games", games, MOST_GAMES)):
        if len(names) > most:
            raise UsageError(f"{source} has {len(names):,} {kind}; the limit is {most:,}.")
    clusters = {name: number for number, name in enumerate(sorted({row.cluster for row in rows} - {""}))}
    alone = iter(range(len(clusters), len(clusters) + len(rows)))
    of_player, of_game = ({name: number for number, name in enumerate(names)} for names in (players, games))
    digest = hashlib.sha256()
    for row in rows:
        digest.update(f"{row!r}\n".encode())
    return Battles(
        players,
        games,
        np.array([of_player[row.first] for row in rows], np.int64),
        np.array([of_player[row.second] for row in rows], np.int64),
        np.array([row.score for row in rows]),
        np.array([of_game[row.game] for row in rows], np.int64),
        np.array([clusters[row.cluster] if row.cluster else next(alone) for row in rows], np.int64),
        digest.hexdigest(),
    )
