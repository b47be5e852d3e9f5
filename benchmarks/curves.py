"""What a population was worth while it grew, as a table: a line for each way to meet opponents and each figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.comparison import interval

QUARTERS = 4  # of a run, one column each


def curved(curves: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of one table for each game of a study.

    The last columns say what is left at the end, with its 95 % interval over seeds, what share that is of the first
    condition's first figure, or where conditions are not compared of the figure's own first value, and the seconds.
    """
    lines: list[str] = []
    for curve in curves:
        lines += [f"**{curve['game']}**, means over seeds, less is better", ""]
        lines += _head(curve)
        compared = next(iter(curve["figures"])) if curve["compared"] else None
        for condition in curve["conditions"]:
            for name, words in curve["figures"].items():
                whole = _ends(curve["conditions"][0], compared) if compared else _starts(condition, name)
                lines.append(_line(condition, name, words, whole))
        lines.append("")
    return lines[:-1]


def _head(curve: dict[str, Any]) -> list[str]:
    iterations = curve["conditions"][0]["runs"][0]["iterations"]
    marks = [f"iteration {iterations[place]}" for place in _places(len(iterations))[:-1]]
    first = next(iter(curve["figures"].values()))
    share = f"÷ {curve['conditions'][0]['name']}, {first}" if curve["compared"] else "÷ first"
    columns = ["condition", "figure", *marks, f"end, iteration {iterations[-1]}", share, "seconds"]
    return [_row(columns), _row(["---", "---", *["---:"] * (len(columns) - 2)])]


def _line(condition: dict[str, Any], name: str, words: str, whole: Sequence[float]) -> str:
    curves = [run[name] for run in condition["runs"]]
    ends = [curve[-1] for curve in curves]
    means = [statistics.fmean(curve[place] for curve in curves) for place in _places(len(curves[0]))[:-1]]
    span = "" if len(ends) == 1 else " ({:.3f} to {:.3f})".format(*interval(ends))
    share = statistics.fmean(ends) / statistics.fmean(whole)
    seconds = statistics.fmean(run["seconds"] for run in condition["runs"])
    shown = [f"{mean:.3f}" for mean in means]
    last = [f"{statistics.fmean(ends):.3f}{span}", f"{share:.3f}", f"{seconds:.0f}"]
    return _row([condition["name"], words, *shown, *last])


def _places(number: int) -> list[int]:
    """Return the places of a curve that are shown, its first and last among them."""
    return [round(quarter * (number - 1) / QUARTERS) for quarter in range(QUARTERS + 1)]


def _ends(condition: dict[str, Any], name: str) -> list[float]:
    return [run[name][-1] for run in condition["runs"]]


def _starts(condition: dict[str, Any], name: str) -> list[float]:
    return [run[name][0] for run in condition["runs"]]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def courses(found: dict[str, Any]) -> list[str]:
    """Return the lines of one table of gaps by iteration, ours beside OpenSpiel's, for games and concepts."""
    names = [f"{game}, {concept.upper()}" for game, concept in (name.rsplit("_", 1) for name in found)]
    heads = [head for name in names for head in (name, "OpenSpiel's")]
    lines = [_row(["iteration", *heads]), _row(["---:", *["---:"] * len(heads)])]
    gaps = [course[whose] for course in found.values() for whose in ("gaps", "openspiel_gaps")]
    for number in range(max(map(len, gaps))):
        cells = [f"{own[number]:.4f}" if number < len(own) else "" for own in gaps]
        lines.append(_row([str(number), *cells]))
    seconds = ", ".join(f"{name} {course['seconds']:.1f}" for name, course in zip(names, found.values(), strict=True))
    return [*lines, "", f"Seconds: {seconds}."]
