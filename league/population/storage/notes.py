"""Notes that players keep from match to match: a store is one version of all players' notes, named by its content.

A player is its weights, its card and its notes together. A policy in training keeps writing; a snapshot has the notes
that its policy had when it was frozen, and they never change, so that its results, gates and ratings judge all three.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from arena.records import Episode, MatchRequest
from games.common.errors import DamagedFile
from games.common.files import atomic_write
from roles.role import Roles
from roles.slots import RULES

NOTES_FOLDER = "notes"  # in a run directory
EMPTY = ""  # the version of a store without notes
MOST_BYTES = 1 << 28  # of a version
Place = tuple[str, int, str]  # of a slot whose texts are kept: game, seat, slot
Notes = Mapping[str, Mapping[str, str]]  # by player, then by match and opponents


class NoteStore:
    """The versions of a run's notes, each a file that never changes; the caller knows which one is current."""

    def __init__(self, folder: Path, places: Collection[Place]) -> None:
        self._folder, self._places = folder, frozenset(places)

    def given(self, version: str, requests: Sequence[MatchRequest]) -> list[MatchRequest]:
        """Return matches with the notes of their players against the others at the table."""
        if not self._places or version == EMPTY:
            return list(requests)
        notes = self._read(version)
        return [request if request.given else request._replace(given=self._of(notes, request)) for request in requests]

    def after(self, version: str, episodes: Iterable[Episode]) -> str:
        """Return the version after matches: for each table, the last text that a player in training wrote counts."""
        if not self._places:
            return version
        notes = {player: dict(texts) for player, texts in self._read(version).items()}
        for episode in episodes:
            request = episode.request
            last = {(turn.seat, turn.tool): turn.action or "" for turn in episode.turns if turn.tool}
            for seat, slot in sorted(last):
                if request.trained[seat] and (request.game, seat, slot) in self._places:
                    notes.setdefault(request.players[seat], {})[table_of(request, seat, slot)] = last[seat, slot]
        return self._write(notes)

    def frozen(self, version: str, player: str, snapshot: str) -> str:
        """Return the version in which a snapshot has the notes that its player has now."""
        notes = self._read(version)
        return self._write({**notes, snapshot: notes[player]}) if player in notes else version

    def has(self, version: str, player: str) -> bool:
        """Return whether a player has notes in a version."""
        return player in self._read(version)

    def without(self, version: str, player: str) -> str:
        """Return the version in which a player whose weights were replaced has no notes."""
        notes = self._read(version)
        return self._write({name: texts for name, texts in notes.items() if name != player})

    def _of(self, notes: Notes, request: MatchRequest) -> tuple[tuple[int, str, str], ...]:
        texts = []
        for game, seat, slot in sorted(self._places):
            if game == request.game and (
                text := notes.get(request.players[seat], {}).get(table_of(request, seat, slot))
            ):
                texts.append((seat, slot, text))
        return tuple(texts)

    def _read(self, version: str) -> Notes:
        return _stored(self._folder / f"{version}.json", version) if version != EMPTY else {}

    def _write(self, notes: Notes) -> str:
        """Write a version, unless it is there; return its name."""
        if not any(notes.values()):
            return EMPTY
        content = json.dumps(notes, sort_keys=True, ensure_ascii=True).encode()
        version = hashlib.sha256(content).hexdigest()[:32]
        path = self._folder / f"{version}.json"
        if not path.exists():
            self._folder.mkdir(exist_ok=True)
            atomic_write(path, content)
        return version


def kept_places(roles: Roles) -> list[Place]:
    """Return the slots whose texts are kept from match to match."""
    return [
        (game, role.seat, one.slot)
        for game, seats in roles.items()
        for role in seats
        for one in role.slots
        if RULES[one.rule].keeps
    ]


def notes_of(folder: Path, version: str, player: str) -> Mapping[str, str]:
    """Return a player's notes in a version, by table. Raises DamagedFile for a version that has changed."""
    return _stored(folder / f"{version}.json", version).get(player, {}) if version != EMPTY else {}


@lru_cache(maxsize=8)  # a version never changes
def _stored(path: Path, version: str) -> Notes:
    whole = re.fullmatch("[0-9a-f]{32}", version) and path.exists() and path.stat().st_size <= MOST_BYTES
    content = path.read_bytes() if whole else b""
    if hashlib.sha256(content).hexdigest()[:32] != version:
        raise DamagedFile(path, "it is missing or has changed since it was written", "Restore it from a copy.")
    notes = json.loads(content)
    if not (isinstance(notes, dict) and all(isinstance(tables, dict) for tables in notes.values())):
        raise DamagedFile(path, "it holds no notes by player and table", "Restore it from a copy.")
    texts = [text for tables in notes.values() for text in tables.values()]
    if not all(isinstance(text, str) for text in texts):
        raise DamagedFile(path, "one of its notes is not text", "Restore it from a copy.")
    return notes


def table_of(request: MatchRequest, seat: int, slot: str) -> str:
    """Return the name of a table: who else sits at it, in which game."""
    others = [player for place, player in enumerate(request.players) if place != seat]
    return json.dumps([request.game, seat, slot, *others])
