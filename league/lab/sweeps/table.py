"""A sweep's runs compared: figures at their end, costs, and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from league.lab.reports.differences import RunComparison, compare
from league.lab.reports.run_record import RunRecord, Series, read_run
from league.lab.sweeps.plan import Sweep, SweepRun
from league.lab.sweeps.record import figures_of, read_record

GENERATED = "reply_tokens"  # the metric of an iteration's tokens


def compare_runs(folder: Path, sweep: Sweep, runs: Sequence[SweepRun]) -> RunComparison:
    """Compare trained runs of a sweep; conditions have the names in the plan.

    If the runs end at a number of tokens, figures are interpolated linearly between the measurements before and after
    it; the comparison's ``iteration`` is then this number.
    """
    records, metrics = [], dict[str, None]()
    for run in runs:
        record = read_run(str(folder / run.folder))
        figures = figures_of(read_record(folder / run.folder))
        if sweep.tokens is not None:
            record = at_tokens(record, sweep.tokens)
        more = {name: Series((0,), (value,)) for name, value in figures.items()}
        records.append(replace(record, metrics=record.metrics | more))
        metrics |= dict.fromkeys(figures)
    comparison = compare(records, metrics)
    names = {folder / run.folder: run.condition for run in runs}
    conditions = [
        condition._replace(name=names[next(iter(condition.runs.values())).path] or condition.name)
        for condition in comparison.conditions
    ]
    return comparison._replace(conditions=conditions)


def at_tokens(record: RunRecord, tokens: int) -> RunRecord:
    """Return a run as it was when all seats had generated ``tokens`` tokens, with tokens in place of iterations."""
    iterations, counts = record.metrics[GENERATED]
    generated = dict(zip(iterations, accumulate(counts), strict=True))
    metrics = {}
    for name, series in record.metrics.items():
        measured = [(generated.get(i, 0.0), value) for i, value in zip(*series, strict=True)]
        if measured[0][0] <= tokens <= measured[-1][0]:
            value = float(np.interp(tokens, *np.array(measured).T))
            metrics[name] = Series((tokens,), (value,))
    return replace(record, done=tokens, metrics=metrics)
