"""Runs compared: figures at the same iteration, and how much of a difference the seeds explain.

Runs whose configurations differ only in the seed are one condition. The mean of a condition has Student's interval
over its seeds. Conditions are compared with the first: seed by seed if they share seeds (a paired interval), otherwise
by their means (Welch 1947). One seed gives a difference without an interval. Intervals are clipped to a figure's
possible values: a score lies between 0 and 1, and two scores differ by 1 at most.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from games.common.errors import UsageError
from games.outside.as_played import is_outside
from games.registry import make_game
from league.config import RunConfig
from league.lab.reports.again import differing
from league.lab.reports.run_record import RunRecord
from league.theory.statistics import Estimate, holm, student_p, student_quantile

FIGURES = (
    "exploitability",
    "return",
    "score_against_",
    "score/",
    "rating",
    "illegal_rate",
    "held_out",
    "tokens_per_second",
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_COLUMNS = 7  # of figures, beside each other in 1280 pixels
SHOWN_SETTINGS = 4  # in a condition's name


class Condition(NamedTuple):
    """Runs of one configuration, by seed."""

    letter: str
    name: str  # its settings that differ from other conditions'
    runs: dict[int, RunRecord]


class Difference(NamedTuple):
    """How a condition differs from the first one in a figure."""

    condition: str  # its letter
    estimate: Estimate  # without bounds for too few seeds
    by_seed: dict[int, float]  # of the seeds that both have
    pairs: bool  # whether the interval is over seeds that both have


class Row(NamedTuple):
    """A figure of all runs."""

    metric: str
    values: list[float | None]  # by run
    means: list[Estimate | None]  # by condition
    differences: list[Difference | None]  # by condition after the first


class PairTest(NamedTuple):
    """How much the second of two conditions exceeds the first in a figure."""

    first: str  # letters
    second: str
    estimate: Estimate  # without bounds for too few seeds
    pairs: bool  # whether seed by seed: a paired t-test, else Welch's
    p: float | None  # two-sided
    p_holm: float | None  # adjusted for all pairs of this figure


class RunComparison(NamedTuple):
    """All figures of several runs, at the last iteration that all have reached."""

    iteration: int
    conditions: list[Condition]
    rows: list[Row]
    settings: dict[str, list[Any]]  # those that differ, by run
    runs: list[RunRecord]

    @property
    def is_long(self) -> bool:
        """Whether there would be more columns than a window has room for, so that each condition needs its own row."""
        several = sum(len(condition.runs) > 1 for condition in self.conditions)
        return len(self.runs) + several + len(self.conditions) - 1 > MOST_COLUMNS

    def values_of(self, row: Row, condition: Condition) -> list[tuple[str, float | None]]:
        """Return the figure of each run of a condition, with the run's name."""
        members = {id(run) for run in condition.runs.values()}
        values = zip(self.runs, row.values, strict=True)
        return [(run.name, value) for run, value in values if id(run) in members]


def compare(records: Sequence[RunRecord], more: Container[str] = ()) -> RunComparison:
    """Compare runs in their figures, and in ``more`` of their metrics."""
    iteration = min(record.done for record in records)
    conditions = _conditions(records)
    metrics = dict.fromkeys(name for record in records for name in record.metrics)
    names = [name for name in metrics if _is_figure(name) or name in more]
    rows = [_row(name, records, conditions, iteration) for name in names]
    settings = differing([record.config for record in records])
    return RunComparison(iteration, conditions, [row for row in rows if row is not None], settings, list(records))


def value_at(record: RunRecord, metric: str, iteration: int) -> float | None:
    """Return the latest value of a metric up to an iteration."""
    series = record.metrics.get(metric)
    values = [] if series is None else [v for i, v in zip(*series, strict=True) if i <= iteration]
    return values[-1] if values else None


def pair_tests(comparison: RunComparison, row: Row) -> list[PairTest]:
    """Return the tests of each pair of conditions in a figure, without conditions that have no value."""
    by_condition = _by_condition(comparison.conditions, row.metric, comparison.iteration)
    letters = [condition.letter for condition in comparison.conditions]
    tests = []
    for (a, first), (b, second) in itertools.combinations(zip(letters, by_condition, strict=True), 2):
        difference = _difference(b, first, second, math.inf)  # unclipped: the test is of the same statistic
        if difference is not None:
            p = _p_value(first, second, difference)
            tests.append(PairTest(a, b, difference.estimate, difference.pairs, p, None))
    with_p = [test for test in tests if test.p is not None]
    adjusted = iter(holm([test.p for test in with_p if test.p is not None]))
    return [test if test.p is None else test._replace(p_holm=next(adjusted)) for test in tests]


def _p_value(a: Mapping[int, float], b: Mapping[int, float], difference: Difference) -> float | None:
    """Return the two-sided p-value that belongs to a difference's interval."""
    mean, low, high = difference.estimate
    if low is None or high is None:
        return None
    if high == low:  # all seeds agree
        return 1.0 if mean == 0.0 else 0.0
    degrees = len(difference.by_seed) - 1.0 if difference.pairs else _welch_error([*a.values()], [*b.values()])[1]
    return student_p(mean / ((high - low) / 2.0) * student_quantile(degrees), degrees)


def seed_mean(values: Sequence[float]) -> Estimate:
    """Return the mean over seeds with Student's 95 % interval; no bounds with one seed."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean, None, None)
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def welch(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return mean(b) − mean(a) with Welch's 95 % interval; no bounds if either has one value."""
    gain = statistics.fmean(b) - statistics.fmean(a)
    if min(len(a), len(b)) < 2:
        return Estimate(gain, None, None)
    error, degrees = _welch_error(a, b)
    if error == 0.0:
        return Estimate(gain, gain, gain)
    half = student_quantile(degrees) * error
    return Estimate(gain, gain - half, gain + half)


def _welch_error(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return the standard error of mean(b) − mean(a), and Welch's degrees of freedom; 0 where nothing varies."""
    parts = [statistics.variance(values) / len(values) for values in (a, b)]
    if sum(parts) == 0.0:
        return 0.0, 0.0
    degrees = sum(parts) ** 2 / sum(part**2 / (len(v) - 1) for part, v in zip(parts, (a, b), strict=True))
    return math.sqrt(sum(parts)), degrees


def _conditions(records: Sequence[RunRecord]) -> list[Condition]:
    """Return the runs by configuration; a second run of the same seed is a condition of its own."""
    groups: list[tuple[RunConfig, dict[int, RunRecord]]] = []
    for record in records:
        bare = record.config.model_copy(update={"seed": 0})
        for config, runs in groups:
            if config == bare and record.config.seed not in runs:
                runs[record.config.seed] = record
                break
        else:
            groups.append((bare, {record.config.seed: record}))
    settings = differing([config for config, _ in groups])
    return [
        Condition(LETTERS[number % len(LETTERS)], _name(settings, number), runs)
        for number, (_, runs) in enumerate(groups)
    ]


def _name(settings: Mapping[str, Sequence[Any]], number: int) -> str:
    words = [f"{key} = {values[number]}" for key, values in settings.items()]
    more = f" and {len(words) - SHOWN_SETTINGS} more" if len(words) > SHOWN_SETTINGS else ""
    return ", ".join(words[:SHOWN_SETTINGS]) + more


def _is_figure(name: str) -> bool:
    return any(figure in name for figure in FIGURES) and "advantage" not in name


def _row(metric: str, records: Sequence[RunRecord], conditions: Sequence[Condition], iteration: int) -> Row | None:
    values = [value_at(record, metric, iteration) for record in records]
    by_condition = _by_condition(conditions, metric, iteration)
    if all(value is None for value in values) or (len({*values}) == 1 and "exploitability" not in metric):
        return None
    low, high = possible_values(metric)
    means = [_within(seed_mean([*by_seed.values()]), low, high) if by_seed else None for by_seed in by_condition]
    first = by_condition[0]
    differences = [
        _difference(condition.letter, first, by_seed, high - low)
        for condition, by_seed in zip(conditions[1:], by_condition[1:], strict=True)
    ]
    return Row(metric, values, means, differences)


def possible_values(metric: str) -> tuple[float, float]:
    """Return the least and the greatest possible value of a figure, infinite if unknown."""
    if re.search(r"(^|/)score(/|_|$)", metric) or metric == "illegal_rate":
        return 0.0, 1.0
    if re.search(r"(seconds|_gb|tokens_per_second)$", metric):
        return 0.0, math.inf
    if of_game := re.search(r"(?:^|/)([^/]+)/(?:\w+_)?(exploitability|return)(?:/|_|$)", metric):
        if is_outside(of_game[1]):  # games are not made to read a report
            return -math.inf, math.inf
        try:
            spec = make_game(of_game[1]).spec
        except UsageError:  # such as a game of OpenSpiel's that was read from a file
            return -math.inf, math.inf
        if of_game[2] == "exploitability":
            return 0.0, spec.max_return - spec.min_return
        return spec.min_return, spec.max_return
    return -math.inf, math.inf


def _within(estimate: Estimate, low: float, high: float) -> Estimate:
    """Return an estimate with its interval clipped to possible values, of which its mean is one."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return Estimate(estimate.mean, max(estimate.low, low), min(estimate.high, high))


def _by_condition(conditions: Sequence[Condition], metric: str, iteration: int) -> list[dict[int, float]]:
    """Return a metric's values by seed, for each condition."""
    return [
        {seed: value for seed, run in condition.runs.items() if (value := value_at(run, metric, iteration)) is not None}
        for condition in conditions
    ]


def _difference(letter: str, a: Mapping[int, float], b: Mapping[int, float], most: float) -> Difference | None:
    """Return the difference of two conditions, by seed; ``most`` is the greatest there can be."""
    if not a or not b:
        return None
    shared = {seed: b[seed] - a[seed] for seed in sorted(a.keys() & b.keys())}
    if len(shared) > 1 or (shared and len(a) == len(b) == 1):
        return Difference(letter, _within(seed_mean([*shared.values()]), -most, most), shared, pairs=True)
    return Difference(letter, _within(welch([*a.values()], [*b.values()]), -most, most), shared, pairs=False)
