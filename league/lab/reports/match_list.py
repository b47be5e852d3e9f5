"""The matches that can be replayed, from a run or from a file of episodes, and their page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from games.common.errors import UsageError
from league.lab.reports.pages import render_page
from league.lab.reports.replay import to_replay
from league.population.storage.run_dir import find_run, open_run
from league.population.storage.sampled_matches import SURPRISING, SampledMatch, load_samples, sample_files

MOST_MATCHES = 60  # of a page, unless one is named


class MatchList(NamedTuple):
    """Matches to replay, and where they are from."""

    source: str  # as the user wrote it
    matches: list[SampledMatch]  # the oldest first; at least one

    def match(self, index: int) -> SampledMatch:
        """Return a match by its number. Raises UsageError with the numbers that exist."""
        for sample in self.matches:
            if sample.episode.request.index == index:
                return sample
        numbers = sorted(sample.episode.request.index for sample in self.matches)
        some = ", ".join(map(str, numbers[:12])) + (", …" if len(numbers) > 12 else "")
        raise UsageError(f"--match {index}: {self.source} has the matches {some}. --list describes them.")

    def most_telling(self) -> SampledMatch:
        """Return the newest match that surprised its learner most, or the first match if none is marked so."""
        surprising = [sample for sample in self.matches if SURPRISING in sample.kept_as]
        return surprising[-1] if surprising else self.matches[0]


def find_matches(name: str) -> MatchList:
    """Return the matches of a run, or of a file that `league match --save` wrote.

    Raises UsageError for anything else, and for a run that has kept none yet.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return MatchList(name, _some(load_samples(path), f"{name} holds no match."))
    if find_run(name) is None and path.suffix:
        raise UsageError(f"There is no file {name}. Files of matches are written by `league match … --save FILE`.")
    return MatchList(name, run_matches(open_run(name).path, name))


def run_matches(run_dir: Path, name: str) -> list[SampledMatch]:
    """Return the matches that a run kept, the oldest first. Raises UsageError where there are none."""
    samples = [sample for path in sample_files(run_dir) for sample in load_samples(path)]
    return _some(
        samples,
        f"{name} has kept no match yet: some are kept whenever a snapshot is frozen, unless episodes_kept is 0.",
    )


def _some(samples: Sequence[SampledMatch], complaint: str) -> list[SampledMatch]:
    if not samples:
        raise UsageError(complaint)
    return list(samples)


def replay_page(listed: MatchList, index: int | None = None) -> str:
    """Return the page of one match, or of the newest ones with the most telling one open."""
    samples = [listed.match(index)] if index is not None else listed.matches[-MOST_MATCHES:]
    shown = listed._replace(matches=samples)
    return render_page(
        "replay.html",
        source=listed.source,
        matches=[to_replay(sample) for sample in samples],
        chosen=samples.index(shown.most_telling()),
        left_out=0 if index is not None else len(listed.matches) - len(samples),
    )
