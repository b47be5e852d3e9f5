"""The report on a run, or on several runs compared, as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from games.common.errors import UsageError
from league.config.load import to_toml
from league.lab.reports.again import command
from league.lab.reports.curves import curve_groups
from league.lab.reports.differences import compare
from league.lab.reports.headline import Headline, headline
from league.lab.reports.pages import render_page
from league.lab.reports.payoffs import GamePayoffs, game_payoffs
from league.lab.reports.population import PopulationTree, population_tree
from league.lab.reports.replay import MatchReplay, to_replay
from league.lab.reports.run_record import RunRecord, read_run
from league.lab.reports.strategies import GameStrategies, strategies
from league.population.storage.sampled_matches import (
    BEST,
    FIRST,
    SURPRISING,
    WORST,
    SampledMatch,
    load_samples,
    sample_files,
)

MOST_MATCHES = 8  # in a report on one run; with several, half as many each
OPEN_MATCHES = 2  # of those; the others are folded
MOST_STEPS = 200  # of a match, with its submatches, that is shown in a report


class RunPart(NamedTuple):
    """The part of a report on one run."""

    name: str
    path: str
    headline: Headline
    payoffs: list[GamePayoffs]
    tree: PopulationTree | None
    matches: list[MatchReplay]
    matches_missing: str  # why there are none
    config: str  # TOML
    command: str | None


def report_page(names: Sequence[str]) -> str:
    """Return the page. Raises UsageError for a name that is not a run, or is given twice."""
    if len({*names}) < len(names):
        raise UsageError(f"A run can only be compared with others, but one of {', '.join(names)} is named twice.")
    records = [read_run(name) for name in names]
    paths = [record.path.resolve() for record in records]
    if len({*paths}) < len(paths):
        raise UsageError(f"A run can only be compared with others, but two of {', '.join(names)} are the same folder.")
    records = [replace(record, name=label) for record, label in zip(records, _labels(records), strict=True)]
    most = MOST_MATCHES if len(records) == 1 else MOST_MATCHES // 2
    together = strategies(records)
    return render_page(
        "report.html",
        title=", ".join(record.name for record in records),
        runs=[_part(record, together if len(records) == 1 else strategies([record]), most) for record in records],
        groups=curve_groups(records),
        strategies=together,
        open_matches=OPEN_MATCHES,
        comparison=compare(records) if len(records) > 1 else None,
    )


def _labels(records: Sequence[RunRecord]) -> list[str]:
    """Return the names of the runs' folders, or what the user wrote if two are equal."""
    labels = [record.path.resolve().name for record in records]
    return labels if len({*labels}) == len(labels) else [record.name for record in records]


def _part(record: RunRecord, own: Sequence[GameStrategies], most: int) -> RunPart:
    matches, missing = _matches(record, most)
    return RunPart(
        name=record.name,
        path=str(record.path),
        headline=headline(record, own),
        payoffs=[game_payoffs(record, game) for game in record.standings],
        tree=population_tree(record.snapshots) if record.snapshots else None,
        matches=matches,
        matches_missing=missing,
        config=to_toml(record.config),
        command=command(record.config),
    )


def _matches(record: RunRecord, most: int) -> tuple[list[MatchReplay], str]:
    """Return the matches to show, some of the newest kept ones and one of the oldest, or why there are none."""
    files = sample_files(record.path)
    if not files:
        return [], "No match has been kept: some are kept whenever a snapshot is frozen, unless episodes_kept is 0."
    try:
        newest, oldest = load_samples(files[-1]), load_samples(files[0]) if len(files) > 1 else []
    except UsageError as error:
        return [], str(error)
    wanted = [sample for reason in (SURPRISING, WORST, BEST, FIRST) for sample in newest if reason in sample.kept_as]
    wanted = [*wanted[: most - 1], *oldest[:1], *wanted[most - 1 :], *newest]
    chosen: dict[tuple[int | None, int], SampledMatch] = {}
    for sample in wanted:
        chosen.setdefault((sample.iteration, sample.episode.request.index), sample)
    replays = map(to_replay, chosen.values())
    return [replay for replay in replays if _steps(replay) <= MOST_STEPS][:most], ""


def _steps(replay: MatchReplay) -> int:
    return len(replay.steps) + sum(map(_steps, replay.children))
