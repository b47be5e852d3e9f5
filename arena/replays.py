"""Episodes to and from disk, as JSON lines: a header, then one episode a line.

A file read back gives equal episodes, floats included: JSON keeps the shortest digits that give the
same float again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from arena.records import Cast, EndReason, Episode, MatchRequest, TokenTrace, Turn
from games.errors import UsageError
from games.files import atomic_write

HEADER = {"format": "league episodes", "version": 1}


def save_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write the episodes, whole or not at all. Raises ValueError for a number that is not finite."""
    lines = [HEADER, *map(_record, episodes)]
    atomic_write(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def load_episodes(path: Path) -> list[Episode]:
    """Return the episodes of a file that ``save_episodes`` wrote.

    Raises UsageError for a file that is missing, foreign, of another version or damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The episodes file {path} cannot be read: {error}.") from error
    header = _parsed(path, 1, lines[0])
    if not isinstance(header, dict) or header.get("format") != HEADER["format"]:
        raise UsageError(f"{path} is not a file of episodes: its first line is not {json.dumps(HEADER)}.")
    if header != HEADER:
        raise UsageError(
            f"{path} holds episodes of version {header.get('version')}; this program reads version {HEADER['version']}."
        )
    if lines[-1]:
        raise UsageError(f"{path} is cut short: line {len(lines)} does not end. Save the episodes again.")
    return [_episode(path, number, line) for number, line in enumerate(lines[1:-1], 2)]


def _record(episode: Episode) -> dict[str, Any]:
    """Return an episode as JSON has it: named fields; tuples become lists."""
    turns = [turn_record(turn) for turn in episode.turns]
    children = [_record(child) for child in episode.children]
    return {**episode._asdict(), "request": episode.request._asdict(), "turns": turns, "children": children}


def turn_record(turn: Turn) -> dict[str, Any]:
    """Return a turn as JSON has it."""
    return {**turn._asdict(), "trace": turn.trace and turn.trace._asdict()}


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not a file of episodes: line {number} is not JSON ({error}).") from error


def _episode(path: Path, number: int, line: str) -> Episode:
    """Return the episode of one line."""
    record = _parsed(path, number, line)
    try:
        return _episode_of(record)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path}: line {number} is not an episode ({type(error).__name__}: {error}). The file is damaged; save the "
            "episodes again."
        ) from error


def _episode_of(record: dict[str, Any]) -> Episode:
    """Return the episode of a ``_record``."""
    return Episode(
        request=_request_of(record["request"]),
        turns=tuple([turn_of(turn) for turn in record["turns"]]),
        returns=tuple(record["returns"]),
        end=EndReason(record["end"]),
        offender=record["offender"],
        children=tuple([_episode_of(child) for child in record.get("children", ())]),
        outcome=record.get("outcome", ""),
    )


def _request_of(record: dict[str, Any]) -> MatchRequest:
    cast = tuple([Cast(game, tuple(players), tuple(trained)) for game, players, trained in record.get("cast", ())])
    return MatchRequest(**{**tuples(record), "cast": cast})


def turn_of(record: dict[str, Any]) -> Turn:
    """Return the turn of a ``turn_record``."""
    trace = record["trace"]
    return Turn(**{**tuples(record), "trace": None if trace is None else TokenTrace(**tuples(trace))})


def tuples(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with their lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
