"""A run's metrics as charts, grouped by question; several runs have one line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from league.lab.reports.svg import Line, line_chart

if TYPE_CHECKING:
    from league.lab.reports.run_record import RunRecord  # slow to import


class Chart(NamedTuple):
    """A chart with its name, and the labels of its lines in the order of their colours."""

    name: str
    note: str
    svg: Markup
    labels: tuple[str, ...]


class Group(NamedTuple):
    """Charts that answer one question."""

    title: str
    charts: list[Chart]
    folded: bool  # folded until opened


# Question, patterns of metric names, whether it is folded. A metric belongs to the first group that matches.
GROUPS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    (
        "Is it getting better?",
        (r".+/(mixture_)?exploitability", r".+/return", r".+/(best_)?welfare", r".+/pareto_share",
         r".+/(held_out|score_against)_.+", r"rating", r".+_gap", r".+/judge/.+"),
        False,
    ),
    ("How does each role do?", (r".+/score/.+", r".+/return/.+", r".+/score", r".+/first_seat_value"), True),
    ("Does credit carry a signal?", (r".+/advantage/.+", r".+/flat_groups/.+"), True),
    ("How does the learner move?", (r".+/entropy(/.+)?", r".+/(kl\w*|clipped|loss|grad_norm|gap|learning_rate)", r"gap",
                                    r"staleness", r"dropped", r".+/critic/.+"), True),
    ("Alarms", (r"alarms/.+",), True),
    ("Everything else", (r".*",), True),
)  # fmt: skip
NOTES = {
    "exploitability": "what a seat gains by best responding to the others; in a zero-sum game 0 is a Nash equilibrium",
    "mixture_exploitability": "the same of the whole population",
    "rating": "among predecessors; random is 25",
    "gap": "sampler against learner, nats",
    "illegal_rate": "share of replies that were illegal",
    "score_against_random": "win 1, draw ½, loss 0",
}
MARKS = {"exploitability": (0.0,), "mixture_exploitability": (0.0,), "spread": (0.0,), "flat_groups": (0.0,)}
FAMILY = re.compile(
    r"(?P<family>.+/(?:score|return|flat_groups)|.+/advantage|.+/entropy)/(?P<member>[^/]+)(?P<rest>/\w+)?"
)


def curve_groups(records: Sequence[RunRecord]) -> list[Group]:
    """Return all charts: for one run a line for each role, for several runs a line for each run."""
    names = [
        name
        for name in dict.fromkeys(name for record in records for name in record.metrics)
        if not _says_nothing(name, records)
    ]
    groups = []
    for title, matching, folded in grouped(names):
        charts = (
            _of_one(records[0], matching) if len(records) == 1 else [_of_several(records, name) for name in matching]
        )
        groups.append(Group(title, charts, folded))
    return groups


def grouped(names: Sequence[str]) -> list[tuple[str, list[str], bool]]:
    """Return the questions that metrics answer: title, metrics, and whether they are folded."""
    left = dict.fromkeys(names)
    groups = []
    for title, patterns, folded in GROUPS:
        matching = [name for pattern in patterns for name in list(left) if re.fullmatch(pattern, name)]
        matching = list(dict.fromkeys(matching))
        for name in matching:
            del left[name]
        if matching:
            groups.append((title, matching, folded))
    return groups


def families(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the charts of metrics, with all roles of a metric in one chart: by chart, each metric by its label."""
    charts: dict[str, dict[str, str]] = {}
    for name in names:
        match = FAMILY.fullmatch(name)
        if match:
            charts.setdefault(match["family"] + (match["rest"] or ""), {})[match["member"]] = name
        else:
            charts.setdefault(name, {})[name] = name
    return charts


def note_of(chart: str) -> str:
    """Return a few words on a chart; "" for one that needs none."""
    return NOTES.get(chart.rsplit("/", 1)[-1], "")


def _says_nothing(name: str, records: Sequence[RunRecord]) -> bool:
    """Return whether a metric is a score that never changes, as in a cooperative game, or an alarm that never rang."""
    values = {value for record in records if name in record.metrics for value in record.metrics[name].values}
    return values <= {0.0} if name.startswith("alarms/") else "/score" in name and values == {0.5}


def _of_one(record: RunRecord, names: Sequence[str]) -> list[Chart]:
    return [
        _chart(chart, [Line(label, *record.metrics[name]) for label, name in members.items()])
        for chart, members in families(names).items()
    ]


def _of_several(records: Sequence[RunRecord], name: str) -> Chart:
    lines = [Line(record.name, *record.metrics[name]) for record in records if name in record.metrics]
    return _chart(name, lines)


def _chart(name: str, lines: Sequence[Line]) -> Chart:
    short = name.rsplit("/", 1)[-1]
    marks = next((MARKS[key] for key in (short, *name.split("/")) if key in MARKS), ())
    labels = tuple(line.label for line in lines) if len(lines) > 1 else ()
    return Chart(name, note_of(name), line_chart(lines, name, marks=marks), labels)
