"""The whole page in one file: what it would ask a server is computed beforehand and stored in it. The size is bounded:
a run of any length gives a page of a few megabytes. What is left out is marked where it would be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from games.common.errors import UsageError
from league.lab.look.page import one_page
from league.lab.look.run_files import RunFiles
from league.lab.look.views import as_json, view

MOST_BYTES = 2**24  # of the answers in a page
MOST_MATCHES = 120  # with all their tokens, evenly over the run
MOST_COMPARED = 40  # snapshots that are compared with their parents

Ask = tuple[str, dict[str, str]]


def look_page(run: RunFiles) -> str:
    """Return the page of a run as it is now. Raises UsageError for a run without measurements."""
    if not run.metrics():
        raise UsageError(f"{run.path} has nothing to show yet: curves are written from the first iteration on.")
    answers: dict[str, Any] = {}
    size = 0
    for name, query in _asked(run):
        try:
            answer = view(run, name, query)
        except UsageError as error:
            answer = {"error": str(error)}
        answers[key(name, query)] = answer
        size += len(as_json(answer))
        if size > MOST_BYTES:
            break
    return one_page(as_json(answers))


def key(name: str, query: Mapping[str, str]) -> str:
    """Return the address of a view, as the page's scripts write it."""
    return f"{name} {json.dumps(sorted(query.items()), ensure_ascii=False, separators=(',', ':'))}"


def _asked(run: RunFiles) -> Iterator[Ask]:
    """Yield the views of a page, those that lead to others first."""
    overview = view(run, "overview", {})
    yield "overview", {}
    for group in overview["groups"]:
        for chart in group["charts"]:
            yield "curves", {"names": "\n".join(chart["lines"])}
    yield "tree", {}
    for game in overview["games"]:
        yield "matrix", {"game": game}
        yield "states", {"game": game, "find": "", "policy": ""}
    for alarm in overview["alarms"]:
        yield "alarm", {"name": alarm["name"]}
    yield "matches", {}
    for at in _spread(overview["kept"], MOST_MATCHES):
        yield "iteration", {"at": str(at)}
        yield "matches", {"at": str(at)}
    yield from _matches(run)
    yield from _snapshots(run, overview["games"])


def _matches(run: RunFiles) -> Iterator[Ask]:
    rows = view(run, "matches", {})["matches"]
    for row in _spread(rows, MOST_MATCHES):
        named = {"at": str(row["iteration"]), "index": str(row["index"])}
        for path in _paths(run, named, ""):
            own = {**named, "path": path}
            yield "match", own
            for turn in range(1, len(view(run, "match", own)["steps"]) + 1):
                yield "tokens", {**own, "turn": str(turn)}


def _paths(run: RunFiles, named: Mapping[str, str], path: str) -> Iterator[str]:
    yield path
    for submatch in view(run, "match", {**named, "path": path})["submatches"]:
        yield from _paths(run, named, submatch["path"])


def _snapshots(run: RunFiles, games: list[str]) -> Iterator[Ask]:
    snapshots = run.snapshots()
    for snapshot in snapshots:
        yield "snapshot", {"id": snapshot.id}
        yield "matches", {"player": snapshot.id}
    for snapshot in _spread([each for each in snapshots if each.parent], MOST_COMPARED):
        for game in games:
            yield "compare", {"game": game, "a": snapshot.id, "b": snapshot.parent or ""}


def _spread(rows: list[Any], most: int) -> list[Any]:
    """Return at most this many rows, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return rows
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]
