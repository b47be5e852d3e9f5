"""A journal of results, one line an iteration, from which a resumed run rebuilds its payoff table.

Appending a line costs the same however large the table is. A line is on disk before the checkpoint of its
iteration, so the journal is never behind the checkpoint; if it is ahead, or ends in half a line, the run was
killed in between and ``truncate`` removes the rest.

A line is ``[iteration, [result, ...], checksum]``: the SHA-256 of the checksum before it ("" before the first) and of
the line without its own. So the last checksum, which the checkpoint keeps too, vouches for all lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from games.common.errors import DamagedFile
from league.population.results.payoffs import Result

_CHECKSUM = re.compile(rb'(.*),"([0-9a-f]{64})"\]\n', re.DOTALL)


class Replay(NamedTuple):
    """The contents of a journal up to an iteration."""

    results: list[Result]  # in order
    checksum: str  # of its last line; "" of none
    size: int  # bytes
    iterations: int  # lines


def append(path: Path, iteration: int, results: Iterable[Result], previous: str) -> str:
    """Append one iteration's results, force them to disk, and return the checksum; ``previous`` is the last line's."""
    body = json.dumps([iteration, list(results)], separators=(",", ":")).encode()[:-1]
    checksum = _checksum(previous, body)
    with path.open("ab") as file:
        file.write(body + b',"%s"]\n' % checksum.encode())
        file.flush()
        os.fsync(file.fileno())
    return checksum


def replay(path: Path, last_iteration: int) -> Replay:
    """Return all results up to ``last_iteration``; a journal that does not exist is empty.

    Raises DamagedFile if one of those lines has changed since it was written. Half a line at the end is left out.
    """
    results: list[Result] = []
    checksum, size, lines = "", 0, 0
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                iteration, rows, after = _parse(path, lines + 1, line, checksum)
                if iteration > last_iteration:
                    break
                results += rows
                checksum, size, lines = after, size + len(line), lines + 1
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read: {error.strerror}") from error
    return Replay(results, checksum, size, lines)


def truncate(path: Path, replayed: Replay) -> None:
    """Remove a journal's lines after the replayed ones."""
    if path.exists():
        os.truncate(path, replayed.size)


def _parse(path: Path, number: int, line: bytes, previous: str) -> tuple[int, list[Result], str]:
    """Return the iteration, results and checksum of a complete line. Raises DamagedFile."""
    match = _CHECKSUM.fullmatch(line)
    if match is None or _checksum(previous, match[1]) != match[2].decode():
        raise DamagedFile(path, f"line {number}, or one before it, has changed since it was written")
    iteration, rows = json.loads(match[1] + b"]")
    return iteration, [Result(*row) for row in rows], match[2].decode()


def _checksum(previous: str, body: bytes) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()
