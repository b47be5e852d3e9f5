"""Where models are kept on this machine: ``models/`` in the cache folder, one immutable folder a model.

A folder appears by one rename when it is complete, so that incomplete folders are never seen. Its card has its source,
its licence, and the SHA-256 of every file.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from games.common.errors import UsageError
from games.common.files import read_json
from league.population.storage.immutable_folder import freeze, remove_partial
from league.population.storage.lock import waiting_lock

HOME_VARIABLE = "LEAGUE_HOME"
CARD = "model-card.json"
ROOM_TO_SPARE = 64 * 2**20  # bytes of disk beyond what is to be written


class StoredModel(NamedTuple):
    """A model in the cache."""

    name: str
    folder: Path
    bytes: int
    licence: str | None  # None: its file does not say
    made_from: str


def cache_home() -> Path:
    """Return ``LEAGUE_HOME`` or, by default, the folder ``league`` where this platform keeps caches."""
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "league"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "league" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "league"


def models_folder() -> Path:
    """Return the folder with one folder for each model."""
    return cache_home() / "models"


def downloads_folder() -> Path:
    """Return where ``league models get`` looks for a file that a user has put there."""
    return cache_home() / "downloads"


def stored_model(name: str) -> StoredModel | None:
    """Return a model of the cache; None if it is not there."""
    folder = models_folder() / name
    if not (folder / CARD).is_file():
        return None
    try:
        card = read_json(folder / CARD)
        made_from, licence = str(card["made_from"]), card["licence"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / CARD} is damaged ({error!r}). Remove {folder} and fetch or convert it again."
        ) from error
    return StoredModel(name, folder, sum(path.stat().st_size for path in folder.iterdir()), licence, made_from)


def stored_models() -> list[StoredModel]:
    """Return all models of the cache, by name."""
    names = sorted(path.name for path in models_folder().iterdir()) if models_folder().is_dir() else []
    return [model for name in names if not name.startswith(".") and (model := stored_model(name))]


def store_model(name: str, needed_bytes: int, write: Callable[[Path], Mapping[str, Any]]) -> StoredModel:
    """Return a model of the cache; if it is missing, make it: ``write`` fills a folder and returns the card's facts.

    The facts are ``made_from`` and ``licence``. If another process is making it, this waits. Raises UsageError if the
    disk has too little room or cannot be written; then nothing is left behind.
    """
    with _room_in(models_folder(), needed_bytes), waiting_lock(models_folder()):
        remove_partial(models_folder())
        if stored := stored_model(name):
            return stored
        facts: dict[str, Any] = {}
        freeze(models_folder() / name, CARD, lambda folder: facts.update(write(folder)), facts)
    stored = stored_model(name)
    assert stored is not None
    return stored


@contextmanager
def _room_in(folder: Path, needed_bytes: int) -> Iterator[None]:
    """Raise UsageError if a folder cannot be written or, before anything is written, if its disk is too full."""
    advice = f"Make room, or name a folder on another disk: {HOME_VARIABLE}=DIR."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < needed_bytes + ROOM_TO_SPARE:
            raise UsageError(
                f"{folder} has {format_bytes(free)} of disk left, and {format_bytes(needed_bytes + ROOM_TO_SPARE)} "
                f"are needed. {advice}"
            )
        yield
    except OSError as error:
        raise UsageError(f"{folder} cannot be written ({error.strerror or error}). {advice}") from error


def format_bytes(count: int) -> str:
    """Return a number of bytes in a suitable decimal unit, as on disks' labels."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.0f} {unit}" if count >= 10 * size else f"{count / size:.1f} {unit}"
    return f"{count / 1000:.0f} kB"
