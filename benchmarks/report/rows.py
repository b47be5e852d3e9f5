"""Tables of figures with targets: by seed, or by repeats of one measurement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.report.comparison import interval

MOST_COLUMNS = 6  # of seeds; of more a table shows the spread


class Row(NamedTuple):
    """One figure of a table: its key in a result, its label, its format and its target."""

    key: str
    label: str
    form: str  # for str.format
    target: float | None = None
    at_most: bool = True  # the target bounds it from above, else from below
    wanted: str = ""  # what the target was before it was measured, and why it was lowered


def by_seed(rows: Sequence[Row], seeds: Sequence[dict[str, float]]) -> list[str]:
    """Return a table with the mean over seeds, its interval, and each seed's figure, or of many seeds their spread."""
    each = len(seeds) <= MOST_COLUMNS
    names = [f"seed {figures['seed']}" for figures in seeds] if each else ["lowest", "median", "highest"]
    lines = _head("figure", "target", "mean, 95 % interval over seeds", *names, "met")
    for row in rows:
        values = [figures[row.key] for figures in seeds]
        shown = values if each else [min(values), statistics.median(values), max(values)]
        low, high = interval(values) if len(values) > 1 else (values[0], values[0])
        mean = row.form.format(statistics.fmean(values))
        span = f" ({row.form.format(max(low, 0.0))} to {row.form.format(high)})" if low < high else ""
        lines.append(_line(row.label, _target(row), mean + span, *map(row.form.format, shown), _met(row, values)))
    return lines


def by_repeat(rows: Sequence[Row], result: dict[str, Any]) -> list[str]:
    """Return a table of the median of repeats, the lowest and the highest."""
    lines = _head("figure", "target", "median", "lowest", "highest", "met")
    for row in rows:
        values = [result[row.key][name] for name in ("median", "min", "max")]
        lines.append(_line(row.label, _target(row), *map(row.form.format, values), _met(row, values[:1])))
    return lines


def _head(*names: str) -> list[str]:
    return [_line(*names), _line("---", *["---:"] * (len(names) - 2), "---")]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _target(row: Row) -> str:
    if row.target is None:
        return "–"
    target = f"{'≤' if row.at_most else '≥'} {row.form.format(row.target)}"
    return f"{target} ({row.wanted})" if row.wanted else target


def _met(row: Row, values: Sequence[float]) -> str:
    """Return whether every value meets the target."""
    if row.target is None:
        return "–"
    count = sum(value <= row.target if row.at_most else value >= row.target for value in values)
    return "yes" if count == len(values) else f"no ({count} of {len(values)})" if len(values) > 1 else "no"
