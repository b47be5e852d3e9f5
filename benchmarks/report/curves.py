"""Tables and pictures of curves: exploitability while a population grew or over decisions, joint PSRO's gaps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report.comparison import interval

QUARTERS = 4  # of a run, one column each
DECISION_MARKS = (1e5, 1e6)


def curve_lines(curves: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of one table for each game of a study.

    There is a line for each condition and figure. The last columns are the value at the end, with its 95 % interval
    over seeds, its share of the first condition's first figure at the end (where conditions are not compared, of its
    own first value), and the seconds.
    """
    lines: list[str] = []
    for curve in curves:
        lines += [f"**{curve['game']}**, means over seeds", ""]
        lines += _head(curve)
        compared = next(iter(curve["figures"])) if curve["compared"] else None
        for condition in curve["conditions"]:
            for name, label in curve["figures"].items():
                reference = _ends(curve["conditions"][0], compared) if compared else _starts(condition, name)
                lines.append(_line(condition, name, label, reference))
        lines.append("")
    return lines[:-1]


def _head(curve: dict[str, Any]) -> list[str]:
    iterations = curve["conditions"][0]["runs"][0]["iterations"]
    marks = [f"iteration {iterations[index]}" for index in _shown_indices(len(iterations))[:-1]]
    first = next(iter(curve["figures"].values()))
    share = f"÷ {curve['conditions'][0]['name']}, {first}" if curve["compared"] else "÷ first"
    columns = ["condition", "figure", *marks, f"end, iteration {iterations[-1]}", share, "seconds"]
    return [_row(columns), _row(["---", "---", *["---:"] * (len(columns) - 2)])]


def _line(condition: dict[str, Any], name: str, label: str, reference: Sequence[float]) -> str:
    curves = [run[name] for run in condition["runs"]]
    ends = [curve[-1] for curve in curves]
    means = [statistics.fmean(curve[index] for curve in curves) for index in _shown_indices(len(curves[0]))[:-1]]
    span = "" if len(ends) == 1 else " ({:.3f} to {:.3f})".format(*interval(ends))
    share = statistics.fmean(ends) / statistics.fmean(reference)
    seconds = statistics.fmean(run["seconds"] for run in condition["runs"])
    cells = [f"{mean:.3f}" for mean in means]
    last = [f"{statistics.fmean(ends):.3f}{span}", f"{share:.3f}", f"{seconds:.0f}"]
    return _row([condition["name"], label, *cells, *last])


def _shown_indices(length: int) -> list[int]:
    """Return the indices of a curve that are shown, its first and last among them."""
    return [round(quarter * (length - 1) / QUARTERS) for quarter in range(QUARTERS + 1)]


def _ends(condition: dict[str, Any], name: str) -> list[float]:
    return [run[name][-1] for run in condition["runs"]]


def _starts(condition: dict[str, Any], name: str) -> list[float]:
    return [run[name][0] for run in condition["runs"]]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def learning_lines(curves: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of one table for each game: a condition's exploitability at the end and at equal decisions.

    Between two measurements a course is a straight line over the logarithm of the decisions; a mark beyond its end has
    none.
    """
    lines: list[str] = []
    for curve in curves:
        lines += [
            f"**{curve['game']}**, {curve['states']:,} information states; uniform play {curve['uniform']:.3f}",
            "",
        ]
        heads = [f"at {mark:,.0f}" for mark in DECISION_MARKS]
        columns = ["condition", "decisions", "exploitability at the end", *heads, "seeds"]
        lines += [_row(columns), _row(["---", *["---:"] * (len(columns) - 1)])]
        for condition in curve["conditions"]:
            runs = condition["runs"]
            ends = _ends(condition, "exploitability")
            span = "" if len(ends) == 1 else " ({:.3f} to {:.3f})".format(*interval(ends))
            at = [[value_at(run, mark) for run in runs] for mark in DECISION_MARKS]
            shown = [f"{statistics.fmean(values):.3f}" if not math.isnan(sum(values)) else "–" for values in at]
            decisions = statistics.fmean(run["decisions"][-1] for run in runs)
            cells = [condition["name"], f"{decisions:,.0f}", f"{statistics.fmean(ends):.3f}{span}", *shown]
            lines.append(_row([*cells, str(len(runs))]))
        lines.append("")
    return lines[:-1]


def value_at(run: dict[str, Any], mark: float) -> float:
    """Return a course's exploitability at this number of decisions; NaN beyond its end and before its first."""
    steps = [math.log(max(step, 1.0)) for step in run["decisions"]]
    return float(np.interp(math.log(mark), steps, run["exploitability"], left=math.nan, right=math.nan))


def gap_lines(courses: dict[str, Any]) -> list[str]:
    """Return the lines of one table of gaps by iteration, this project's beside OpenSpiel's, by game and concept."""
    names = [f"{game}, {concept.upper()}" for game, concept in (name.rsplit("_", 1) for name in courses)]
    heads = [head for name in names for head in (name, "OpenSpiel's")]
    lines = [_row(["iteration", *heads]), _row(["---:", *["---:"] * len(heads)])]
    columns = [course[key] for course in courses.values() for key in ("gaps", "openspiel_gaps")]
    for number in range(max(map(len, columns))):
        cells = [f"{gaps[number]:.4f}" if number < len(gaps) else "" for gaps in columns]
        lines.append(_row([str(number), *cells]))
    seconds = ", ".join(f"{name} {course['seconds']:.1f}" for name, course in zip(names, courses.values(), strict=True))
    return [*lines, "", f"Seconds: {seconds}."]


def draw_over_seeds(
    axes: Any, steps: Sequence[float], values: Sequence[Sequence[float]], colour: str, name: str
) -> None:
    """Draw a condition's mean over the seeds at each step, with a band of 95 % where there are several.

    ``values`` are by step and seed.
    """
    axes.plot(steps, [statistics.fmean(each) for each in values], color=colour, label=name)
    if values and len(values[0]) > 1:
        low, high = zip(*map(interval, values), strict=True)
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)


def save_with_legend(figure: Any, path: Path) -> None:
    """Write a picture with the names of its first axes' lines below all axes."""
    from league.training.board.figures.canvas import SMALL

    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), fontsize=SMALL - 1, frameon=False)
    figure.savefig(path)
