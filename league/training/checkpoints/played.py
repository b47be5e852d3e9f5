"""The matches of iterations between two checkpoints (``checkpoint_every``): what a killed run learns from again.

A checkpoint holds every optimiser's state, three times the weights. Between two of them only an iteration's matches are
kept, as soon as they are played. A run that continues from the older checkpoint draws the same matches, finds their
results, and learns the same from them, to the last bit; it plays only the matches that were in flight when it was
killed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from arena.records import Episode, MatchRequest
from arena.replays import load_episodes, save_episodes
from games.common.errors import UsageError
from league.population.storage.run_dir import STATE_FOLDER

PLAYED_FOLDER = "played"


class PlayedMatches:
    """The files of a run: ``state/played/000123.jsonl``."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / STATE_FOLDER / PLAYED_FOLDER

    def keep(self, iteration: int, episodes: Sequence[Episode]) -> None:
        """Write an iteration's matches; when this returns, a kill does not lose them."""
        self._folder.mkdir(exist_ok=True)
        save_episodes(self._file(iteration), episodes)

    def of(self, iteration: int, requests: Sequence[MatchRequest]) -> list[Episode] | None:
        """Return the results of an iteration's matches; None where these or other matches were not played to the
        end.
        """
        try:
            episodes = load_episodes(self._file(iteration))
        except UsageError:  # none was written, or it cannot be read: they are played again
            return None
        return episodes if [episode.request for episode in episodes] == list(requests) else None

    def forget(self) -> None:
        """Remove all: a checkpoint has what was learned from them, or the run takes another course."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.jsonl"
