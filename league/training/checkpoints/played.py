"""The matches of iterations between two checkpoints (``checkpoint_every``): what a killed run learns from again.

A checkpoint holds every optimiser's state, three times the weights. Between two of them only an iteration's matches are
kept, as soon as they are played. A run that continues from the older checkpoint draws the same matches, finds their
results, and learns the same from them, to the last bit; it plays only the matches that were in flight when it was
killed.

In a small game thousands of matches have few different turns, and those that were drawn from one tree share their
records (``arena.drawn_matches``). So a file has each once, and of the requests a digest, since a run that continues
draws them again. Its lines: the digest of all that follows and the requests; by match the number of its course; by
course those of its ending and of its turns; the turns; and the endings, as episodes without turns.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from arena.records import Episode, MatchRequest
from arena.replays import episodes_text, parse_episodes, turn_from_record, turn_to_record
from games.common.errors import UsageError
from games.common.files import atomic_write
from league.population.storage.run_dir import STATE_FOLDER

PLAYED_FOLDER = "played"


class PlayedMatches:
    """The files of a run: ``state/played/000123.jsonl``."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / STATE_FOLDER / PLAYED_FOLDER
        self._lock = Lock()  # a checkpoint beside training forgets

    def keep(self, iteration: int, episodes: Sequence[Episode]) -> None:
        """Write an iteration's matches; when this returns, a kill does not lose them."""
        text = _to_text(episodes)
        with self._lock:
            atomic_write(self._file(iteration), f"{_digest([one.request for one in episodes], text)}\n{text}")

    def of(self, iteration: int, requests: Sequence[MatchRequest]) -> list[Episode] | None:
        """Return the results of an iteration's matches; None where these or other matches were not played to the
        end.
        """
        path = self._file(iteration)
        try:
            digest, _, text = path.read_text(encoding="utf-8").partition("\n")
            return _from_text(path, text, requests) if digest == _digest(requests, text) else None
        except (OSError, UnicodeDecodeError, UsageError):  # none was written, or it cannot be read
            return None

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


def _to_text(episodes: Sequence[Episode]) -> str:
    """Return the lines of a file after its digest. Raises ValueError for a number that is not finite."""
    courses: dict[tuple[int, ...], int] = {}  # numbers, by what is in an episode beside its request, as objects
    turns: dict[tuple[object, ...], int] = {}  # numbers, by content; floats as text, which keeps the sign of a zero
    endings: dict[str, int] = {}
    kept: tuple[list[list[int]], list[dict[str, Any]], list[Episode]] = [], [], []
    matches = []
    for episode in episodes:
        content = tuple(map(id, episode[1:]))
        if content not in courses:
            courses[content] = len(courses)
            ending = endings.setdefault(repr(episode[2:]), len(endings))
            if ending == len(kept[2]):
                kept[2].append(episode._replace(turns=()))
            course = [ending]
            for turn in episode.turns:
                key = (*turn[:7], repr(turn.reward), id(turn.trace), *turn[9:11], repr(turn.named))
                course.append(turns.setdefault(key, len(turns)))
                if course[-1] == len(kept[1]):
                    kept[1].append(turn_to_record(turn))
            kept[0].append(course)
        matches.append(courses[content])
    lines = [json.dumps(line, allow_nan=False) for line in (matches, *kept[:2])]
    return "\n".join([*lines, episodes_text(kept[2])])


def _from_text(path: Path, text: str, requests: Sequence[MatchRequest]) -> list[Episode]:
    """Return the matches of these requests from what ``_to_text`` returned."""
    *lines, endings = text.split("\n", 3)
    matches, courses, records = map(json.loads, lines)
    turns, ended = [turn_from_record(record) for record in records], parse_episodes(path, endings)
    played = [ended[ending]._replace(turns=tuple([turns[turn] for turn in course])) for ending, *course in courses]
    return [played[match]._replace(request=request) for match, request in zip(matches, requests, strict=True)]


def _digest(requests: Sequence[MatchRequest], text: str) -> str:
    """Return the SHA-256 of the requests of matches and of what is written about them."""
    return hashlib.sha256(f"{json.dumps(requests)}\n{text}".encode()).hexdigest()
