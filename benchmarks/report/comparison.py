"""Tables of conditions: means over seeds, and differences to the first condition seed by seed, with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from league.theory.statistics import student_quantile


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of independent values: mean ± t s / √n, t with n − 1 degrees of freedom."""
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    mean = statistics.fmean(values)
    return mean - half, mean + half


NOISE = {"offset": "mean advantage", "spread": "its spread", "grad_norm": "gradient"}


def comparison_lines(tables: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of one table for each game of a study; the last columns are means over a condition's runs.

    The table's ``columns`` holds their headings by figure; without it they are the noise of learning. ``places`` are
    those of their means after the point, 2 if it is not stated. Of one run there is no interval. Where
    ``less_is_better`` is None nothing is better, and a difference is only more or less.
    """
    lines: list[str] = []
    for table in tables:
        aim = {True: ", less is better", False: ", more is better", None: ""}[table["less_is_better"]]
        lines += [f"**{table['game']}**, {table['figure']}{aim}", ""]
        columns = table.get("columns", NOISE)
        heads = ["condition", "mean, 95 % interval", "less the first, by seed", *columns.values()]
        lines += [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
        first = [run["figure"] for run in table["conditions"][0]["runs"]]
        lines += [_line(condition, first, table, columns) for condition in table["conditions"]]
        lines.append("")
    return lines[:-1]


def _line(condition: dict[str, Any], first: Sequence[float], table: dict[str, Any], columns: Iterable[str]) -> str:
    """Return one condition's row."""
    less_is_better, places = table["less_is_better"], table.get("places", 2)
    runs = condition["runs"]
    figures = [run["figure"] for run in runs]
    differences = [figure - reference for figure, reference in zip(figures, first, strict=True)]
    gain = _difference(differences, less_is_better) if any(differences) else "–"
    means = [
        f"{statistics.fmean(run[name] for run in runs):.{places}f}" if all(name in run for run in runs) else "–"
        for name in columns
    ]
    return f"| {' | '.join([condition['name'], _mean(figures), gain, *means])} |"


def _mean(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f} (one seed)"
    low, high = interval(values)
    return f"{statistics.fmean(values):.3f} ({low:.3f} to {high:.3f})"


def _difference(values: Sequence[float], less_is_better: bool | None) -> str:
    """Return a paired difference with its verdict: better or worse only if its interval excludes zero."""
    if len(values) == 1:
        return f"{values[0]:+.3f} (one seed)"
    low, high = interval(values)
    verdict = "no clear difference"
    if low > 0.0 or high < 0.0:
        verdict = "better" if (high < 0.0) == less_is_better else "worse"
        if less_is_better is None:
            verdict = "less" if high < 0.0 else "more"
    return f"{statistics.fmean(values):+.3f} ({low:+.3f} to {high:+.3f}): {verdict}"
