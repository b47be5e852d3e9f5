"""What a tournament plays, and the file in its folder that says so."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from games.common import plugins
from games.common.errors import UsageError
from games.common.files import is_leftover, read_json
from games.common.section import Positive
from games.common.validation import validated
from league.population.players.settings import PlayerSettings
from league.population.storage.run_dir import PLAN_FILE

HEADER = {"format": "league tournament", "version": 1}


class TournamentPlan(NamedTuple):
    """The settings of a tournament, from which all its matches follow."""

    game: str
    players: tuple[str, ...]  # as written on the command line, all different
    matches: int  # at least this many for each pair
    seed: int
    settings: PlayerSettings = PlayerSettings()  # of the language models among them

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {**self._asdict(), "settings": self.settings.given()}


_Members = Annotated[list[tuple[str, float]], Field(min_length=1)]  # of a player in a seat, with their weights


class _Record(BaseModel):
    """What a tournament's folder says of it, which may be a stranger's."""

    format: str
    version: int
    game: str
    players: tuple[str, ...]
    matches: Positive
    seed: int
    settings: PlayerSettings
    plugins: list[str]
    stands_for: dict[str, Annotated[list[_Members], Field(min_length=1)]]


def load_plan(folder: Path) -> TournamentPlan:
    """Return the plan of the tournament in a folder. Raises UsageError if there is none, or it is damaged."""
    record = _Record.model_validate(_read_record(folder))
    return TournamentPlan(record.game, record.players, record.matches, record.seed, record.settings)


def check_folder(folder: Path, record: dict[str, Any]) -> None:
    """Raise UsageError if a folder holds anything but the tournament of this record."""
    if not (folder / PLAN_FILE).exists():
        names = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE and not is_leftover(path))
        if names:
            raise UsageError(f"{folder} is not empty (it holds {', '.join(names[:3])}). Choose another --run-dir.")
        return
    stored = _read_record(folder)
    for key in TournamentPlan._fields:
        if stored[key] != record[key]:
            raise UsageError(
                f"{folder} holds another tournament ({key}: {_format_value(stored[key])}; now requested: "
                f"{_format_value(record[key])}). Choose another --run-dir, or continue that one: "
                f"league tournament --resume --run-dir {shlex.quote(str(folder))}{plugins.as_options()}"
            )
    for name, members in record["stands_for"].items():
        before = stored["stands_for"].get(name)
        if before != members:
            raise UsageError(
                f"{name} is no longer the player that it was when the tournament in {folder} began: it was "
                f"{_likeliest(before) if before else 'nobody'}, and is now {_likeliest(members)}. Start a new one with "
                "another --run-dir; a snapshot named as RUN@SNAPSHOT never changes."
            )


def _read_record(folder: Path) -> dict[str, Any]:
    """Return the JSON data of a folder's plan file."""
    path = folder / PLAN_FILE
    try:
        record = read_json(path)
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no tournament: it has no {PLAN_FILE}.") from None
    except ValueError as error:
        raise UsageError(f"{path} is damaged ({error}). Restore it from a copy.") from error
    if isinstance(record, dict):
        record.setdefault("settings", {})  # from before there were any
        record.setdefault("plugins", [])  # likewise
    keys = {*HEADER, *TournamentPlan._fields, "plugins", "stands_for"}
    if not isinstance(record, dict) or set(record) != keys or {**record, **HEADER} != record:
        raise UsageError(
            f"{path} is not a tournament's, or one of another version: it should hold {', '.join(sorted(keys))}."
        )
    validated(_Record, record, f"{path} is damaged")
    return record


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _likeliest(members: list[list[tuple[str, float]]]) -> str:
    """Return the first seat's likeliest member."""
    return max(members[0], key=lambda member: member[1])[0]
