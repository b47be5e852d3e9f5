"""The first view: what the run is, its curves by question; and one iteration: every number and its change."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from games.common.errors import UsageError
from league.lab.look.run_files import LoggedCurve, RunFiles
from league.lab.reports.curves import families, grouped, note_of
from league.training.board.descriptions import description

MOST_POINTS = 400  # of a curve that is sent; of each stretch its least and its greatest value stay
ALARMS = "alarms/"


def overview(run: RunFiles, _: Mapping[str, str]) -> dict[str, Any]:
    """Return what the run is, the names of its charts by question, and the points of the first question's charts."""
    curves = run.metrics()
    silent = {name for name in curves if name.startswith(ALARMS) and not any(curves[name].values)}
    groups: list[dict[str, Any]] = [
        {"title": title, "folded": folded, "charts": [_chart(name, lines) for name, lines in families(names).items()]}
        for title, names, folded in grouped([name for name in curves if name not in silent])
    ]
    first = [name for group in groups if not group["folded"] for chart in group["charts"] for name in chart["lines"]]
    return {
        "name": run.name,
        "games": list(run.toml.get("games", {})),
        "done": run.done(),
        "iterations": run.toml.get("iterations"),
        "snapshots": run.number_of_snapshots(),
        "kept": [int(path.stem.partition("-")[2]) for path in run.sample_files()],
        "alarms": _rang(curves),
        "groups": groups,
        "points": {name: points(curves[name]) for name in first},
    }


def curve_points(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the points of the metrics in ``names``, one a line; unknown ones are left out."""
    curves = run.metrics()
    wanted = [name for name in query.get("names", "").split("\n") if name in curves]
    return {"done": run.done(), "points": {name: points(curves[name]) for name in wanted}}


def iteration(run: RunFiles, query: Mapping[str, str]) -> dict[str, Any]:
    """Return every metric of iteration ``at`` with the value before it, and the iterations beside it."""
    at, curves = whole(query, "at"), run.metrics()
    if not 0 <= at <= run.done():
        raise UsageError(f"{run.name} has the iterations 0 to {run.done()}, not {at}.")
    rows: list[dict[str, Any]] = []
    for name, curve in curves.items():
        place = _place(curve, at)
        if place is not None:
            before = curve.values[place - 1] if place else None
            rows.append({"name": name, "value": curve.values[place], "before": before, "note": description(name)})
    kept = [int(path.stem.partition("-")[2]) for path in run.sample_files()]
    return {
        "at": at,
        "done": run.done(),
        "metrics": rows,
        "alarms": [row["name"].removeprefix(ALARMS) for row in rows if row["name"].startswith(ALARMS) and row["value"]],
        "kept": kept,
        "nearest": min(kept, key=lambda each: (abs(each - at), -each), default=None),
    }


def points(curve: LoggedCurve) -> dict[str, list[float]]:
    """Return a curve's points, thinned so that no peak is lost."""
    size = len(curve.values)
    if size <= MOST_POINTS:
        chosen: Sequence[int] = range(size)
    else:
        edges = [round(cut * size / (MOST_POINTS // 2)) for cut in range(MOST_POINTS // 2 + 1)]
        kept = {0, size - 1}
        for low, high in pairwise(edges):
            stretch = range(low, high)
            kept |= {min(stretch, key=curve.values.__getitem__), max(stretch, key=curve.values.__getitem__)}
        chosen = sorted(kept)
    return {"x": [curve.iterations[at] for at in chosen], "y": [curve.values[at] for at in chosen]}


def whole(query: Mapping[str, str], name: str) -> int:
    """Return a number of the query. Raises UsageError where it is missing or no whole number."""
    text = query.get(name, "")
    if not re.fullmatch(r"-?[0-9]{1,18}", text):  # SQLite's numbers have 64 bits
        raise UsageError(f"{name}={text!r}: give a whole number of at most 18 digits.")
    return int(text)


def _chart(name: str, lines: Mapping[str, str]) -> dict[str, Any]:
    """Return a chart: its lines are metrics, by their labels."""
    return {
        "name": name,
        "note": note_of(name),
        "lines": list(lines.values()),
        "labels": list(lines) if len(lines) > 1 else [],
    }


def _rang(curves: Mapping[str, LoggedCurve]) -> list[dict[str, Any]]:
    """Return the alarms that ever rang, with the iterations in which they did."""
    rows = []
    for name, curve in curves.items():
        if name.startswith(ALARMS):
            times = [when for when, value in zip(curve.iterations, curve.values, strict=True) if value]
            if times:
                rings = times[-1] == curve.iterations[-1]
                rows.append({"name": name.removeprefix(ALARMS), "times": times[-MOST_POINTS:], "rings": rings})
    return rows


def _place(curve: LoggedCurve, at: int) -> int | None:
    """Return where in a curve an iteration is; None if it was not measured then."""
    place = bisect_left(curve.iterations, at)
    return place if place < len(curve.iterations) and curve.iterations[place] == at else None
