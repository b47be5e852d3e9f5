"""A journal of results, one line an iteration, from which a resumed run rebuilds its payoff table.

Appending a line costs the same however large the table is. A line is on disk before the checkpoint of its
iteration, so the journal is never behind the checkpoint; where it is ahead of it, or ends in half a line,
the run was killed in between and ``replay`` truncates it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from games.common.errors import UsageError
from league.results.payoffs import Result


def append(path: Path, iteration: int, results: Iterable[Result]) -> None:
    """Append one iteration's results as a line ``[iteration, [result, ...]]`` and force it to disk."""
    line = json.dumps([iteration, list(results)], separators=(",", ":")) + "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def replay(path: Path, last_iteration: int) -> list[Result]:
    """Return all results up to ``last_iteration`` in order, and truncate the file after them.

    A journal that does not exist is empty. Raises UsageError when one of those lines is damaged.
    """
    if not path.exists():
        return []
    results: list[Result] = []
    size = 0  # bytes
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            iteration, rows = _parse(path, number, line)
            if iteration > last_iteration:
                break
            results += rows
            size += len(line)
    os.truncate(path, size)
    return results


def _parse(path: Path, number: int, line: bytes) -> tuple[int, list[Result]]:
    """Return the iteration and the results of a complete line. Raises UsageError when it is damaged."""
    try:
        iteration, rows = json.loads(line)
        return iteration, [Result(*row) for row in rows]
    except (ValueError, TypeError) as error:
        raise UsageError(f"Line {number} of {path} is damaged ({error}). Restore the file from a copy.") from error
