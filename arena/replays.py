"""Episodes on disk, as JSON lines: a header, then one episode a line.

Loading returns equal episodes, floats included: JSON writes the shortest digits that round-trip.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from arena.records import Belief, Cast, EndReason, Episode, MatchRequest, TokenTrace, Turn
from games.common.errors import UsageError
from games.common.files import atomic_write, parse_json, read_file
from games.spec import Attempt

HEADER = {"format": "league episodes", "version": 1}


def save_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write the episodes atomically. Raises ValueError for a number that is not finite."""
    atomic_write(path, episodes_text(episodes))


def episodes_text(episodes: Iterable[Episode]) -> str:
    """Return the content of a file of episodes. Raises ValueError for a number that is not finite."""
    lines = [HEADER, *map(episode_to_record, episodes)]
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)


def load_episodes(path: Path) -> list[Episode]:
    """Return the episodes of a file that ``save_episodes`` wrote.

    Raises UsageError for a file that is missing, damaged, of another version or no file of episodes.
    """
    try:
        text = read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The episodes file {path} cannot be read: {error}.") from error
    return parse_episodes(path, text)


def parse_episodes(path: Path, text: str) -> list[Episode]:
    """Return the episodes of ``episodes_text``, which was in a file of this path. Raises as ``load_episodes``."""
    lines = text.split("\n")
    header = _parse(path, 1, lines[0])
    if not isinstance(header, dict) or header.get("format") != HEADER["format"]:
        raise UsageError(f"{path} is not a file of episodes: its first line is not {json.dumps(HEADER)}.")
    if header != HEADER:
        raise UsageError(
            f"{path} holds episodes of version {header.get('version')}; this program reads version {HEADER['version']}."
        )
    if lines[-1]:
        raise UsageError(f"{path} is cut short: line {len(lines)} does not end. Save the episodes again.")
    return [_parse_episode(path, number, line) for number, line in enumerate(lines[1:-1], 2)]


def episode_to_record(episode: Episode) -> dict[str, Any]:
    """Return an episode as a JSON object, from which ``episode_from_record`` makes an equal one."""
    turns = [turn_to_record(turn) for turn in episode.turns]
    children = [episode_to_record(child) for child in episode.children]
    record = {**episode._asdict(), "request": request_to_record(episode.request), "turns": turns, "children": children}
    record["beliefs"] = [belief._asdict() for belief in episode.beliefs]
    for field in ("beliefs", "shaping", "preferred", "failed"):
        if not record[field]:
            del record[field]
    return record


def request_to_record(request: MatchRequest) -> dict[str, Any]:
    """Return a request as a JSON object, from which ``request_from_record`` makes an equal one."""
    record = request._asdict()
    for field in ("prefix", "start", "given", "explore"):
        if not record[field]:
            del record[field]
    return record


def turn_to_record(turn: Turn) -> dict[str, Any]:
    """Return a turn as a JSON object; ``form`` and ``named`` are left out where they are empty."""
    record = {**turn._asdict(), "trace": turn.trace and turn.trace._asdict()}
    for field in ("form", "named"):
        if not record[field]:
            del record[field]
    if turn.trace is not None and turn.trace.version is None:
        del record["trace"]["version"]
    return record


def _parse(path: Path, number: int, line: str) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise UsageError(f"{path} is not a file of episodes: line {number} is not JSON ({error}).") from error


def _parse_episode(path: Path, number: int, line: str) -> Episode:
    """Parse the episode of one line."""
    record = _parse(path, number, line)
    try:
        return episode_from_record(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path}: line {number} is not an episode ({type(error).__name__}: {error}). The file is damaged; save the "
            "episodes again."
        ) from error


def episode_from_record(record: dict[str, Any]) -> Episode:
    """Return the episode of a record of ``episode_to_record``."""
    return Episode(
        request=request_from_record(record["request"]),
        turns=tuple([turn_from_record(turn) for turn in record["turns"]]),
        returns=tuple(record["returns"]),
        end=EndReason(record["end"]),
        offender=record["offender"],
        children=tuple([episode_from_record(child) for child in record.get("children", ())]),
        outcome=record.get("outcome", ""),
        beliefs=tuple([Belief(**with_tuples(belief)) for belief in record.get("beliefs", ())]),
        shaping=tuple(record.get("shaping", ())),
        preferred=tuple(record.get("preferred", ())),
        failed=tuple(record.get("failed", ())),
    )


def request_from_record(record: dict[str, Any]) -> MatchRequest:
    """Return the request of a record of ``request_to_record``."""
    cast = tuple([Cast(game, tuple(players), tuple(trained)) for game, players, trained in record.get("cast", ())])
    given = tuple([(seat, slot, text) for seat, slot, text in record.get("given", ())])
    texts = tuple([(after, text) for after, text in record.get("texts", ())])
    attempts = tuple([Attempt(*attempt) for attempt in record.get("attempts", ())])
    return MatchRequest(**{**with_tuples(record), "cast": cast, "given": given, "texts": texts, "attempts": attempts})


def turn_from_record(record: dict[str, Any]) -> Turn:
    """Return the turn of a record of ``turn_to_record``."""
    trace = record["trace"]
    kept = {"trace": None if trace is None else TokenTrace(**with_tuples(trace))}
    named = {"named": tuple([(name, value) for name, value in record["named"]])} if "named" in record else {}
    return Turn(**{**with_tuples(record), **kept, **named})


def with_tuples(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with their lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
