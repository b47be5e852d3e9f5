"""What a tournament plays, and the file in its folder that says so."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from games.common import plugins
from games.common.errors import UsageError
from games.common.files import is_leftover, read_json
from games.common.limits import LARGEST_COUNT
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


def load_plan(folder: Path) -> TournamentPlan:
    """Return the plan of the tournament in a folder. Raises UsageError if there is none, or it is damaged."""
    record = _read_record(folder)
    game, players, matches, seed, settings = (record[key] for key in TournamentPlan._fields)
    return TournamentPlan(game, tuple(players), matches, seed, PlayerSettings(**settings))


def check_folder(folder: Path, record: dict[str, Any]) -> None:
    """Raise UsageError if a folder holds anything but the tournament of this record."""
    from league.population.storage.lock import LOCK_FILE  # its library takes a moment to import

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
    for key, (is_so, expected) in _FIELDS.items():
        if not is_so(record[key]):
            raise UsageError(f"{path} is damaged: {key} = {str(record[key])[:80]}: it should be {expected}.")
    return record


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are(is_so: Callable[[Any], bool], values: object, least: int = 0) -> bool:
    """Return whether values are a list of such, at least so many."""
    return isinstance(values, list) and len(values) >= least and all(map(is_so, values))


def _are_settings(table: object) -> bool:
    """Return whether a table holds settings of players, each of its type."""
    kinds = get_type_hints(PlayerSettings)
    return isinstance(table, dict) and all(
        key in kinds and (isinstance(value, kinds[key]) or (_is_whole(value) and isinstance(0.0, kinds[key])))
        for key, value in table.items()
    )


def _is_member(value: object) -> bool:
    """Return whether a value is the name of a player's member, and its weight."""
    return isinstance(value, list) and len(value) == 2 and _is_text(value[0]) and isinstance(value[1], float | int)


def _are_seats(value: object) -> bool:
    return _are(lambda members: _are(_is_member, members, 1), value, 1)


# What a folder says of its tournament may be a stranger's. No table of ``games.common.section``, since pydantic takes
# as long to import as a thousand players to rank.
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "game": (_is_text, "the name of a game"),
    "players": (lambda names: _are(_is_text, names), "a list of players"),
    "matches": (lambda n: _is_whole(n) and 1 <= n <= LARGEST_COUNT, f"a whole number from 1 to {LARGEST_COUNT}"),
    "seed": (_is_whole, "a whole number"),
    "settings": (_are_settings, f"a table of {', '.join(PlayerSettings._fields)}"),
    "plugins": (lambda names: _are(_is_text, names), "a list of plugins"),
    "stands_for": (
        lambda table: isinstance(table, dict) and all(map(_are_seats, table.values())),
        "a table of players, each with the members and their weights by seat",
    ),
}


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _likeliest(members: list[list[tuple[str, float]]]) -> str:
    """Return the first seat's likeliest member."""
    return max(members[0], key=lambda member: member[1])[0]
