"""The matches of iterations between two checkpoints (``checkpoint_every``): what a killed run learns from again.

A checkpoint holds every optimiser's state, three times the weights. Between two of them only an iteration's matches are
kept, as soon as they are played. A run that continues from the older checkpoint draws the same matches, finds their
results, and learns the same from them, to the last bit; it plays only the matches that were in flight when it was
killed.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from arena.records import Episode, MatchRequest
from arena.replays import load_episodes, save_episodes
from games.common.errors import UsageError
from league.population.storage.run_dir import STATE_FOLDER

PLAYED_FOLDER = "played"


class PlayedMatches:
    """The files of a run: ``state/played/000123.jsonl``."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / STATE_FOLDER / PLAYED_FOLDER
        self._lock = Lock()  # a checkpoint beside training forgets

    def keep(self, iteration: int, episodes: Sequence[Episode]) -> None:
        """Write an iteration's matches; when this returns, a kill does not lose them."""
        with self._lock:
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

    def forget(self, until: float = math.inf) -> None:
        """Remove all up to an iteration: its checkpoint has what was learned, or the run goes another way."""
        with self._lock:
            if until == math.inf:
                shutil.rmtree(self._folder, ignore_errors=True)
                return
            for path in self._folder.glob("*.jsonl"):
                if path.stem.isdecimal() and int(path.stem) <= until:
                    path.unlink()
            with suppress(OSError):  # where matches of later iterations are in it
                self._folder.rmdir()

    def _file(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.jsonl"
