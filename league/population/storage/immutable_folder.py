"""Folders that appear atomically, are hashed, and never change afterwards.

Each has a card: a JSON file with facts about the folder and the SHA-256 of every other file in it. A folder of saved
state has a manifest instead, with only the hashes: the last file that is written before the folder gets its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from games.common.errors import DamagedFile
from games.common.files import sync_folder
from games.common.sealed_json import read_sealed, write_sealed

PARTIAL = ".partial-"  # prefix of the names of folders that are being written or removed


def freeze(folder: Path, card: str, write: Callable[[Path], None], facts: Mapping[str, Any]) -> dict[str, str]:
    """Make a folder that ``write`` fills; return the hashes of its files by name, which are read-only from now on.

    Raises ValueError, and leaves no folder, if ``write`` wrote no safetensors weights.
    """
    partial = folder.with_name(f"{PARTIAL}{folder.name}-{os.getpid()}")
    partial.mkdir()
    try:
        write(partial)
        hashes = hashes_of(partial, card)
        if not any(name.endswith(".safetensors") for name in hashes):
            raise ValueError(f"{folder.name} has no model weights (*.safetensors), only {sorted(hashes)}")
        (partial / card).write_text(json.dumps({**facts, "sha256": hashes}, indent=2) + "\n", encoding="utf-8")
        _make_durable(partial)
        partial.rename(folder)
    finally:
        if partial.exists():
            shutil.rmtree(partial)
    sync_folder(folder.parent)
    return hashes


def hashes_of(folder: Path, card: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder except its card."""
    return {name: sha256(folder / name) for name in _files(folder, card)}


def changed_files(folder: Path, card: str, hashes: Mapping[str, str]) -> list[str]:
    """Return the files of a frozen folder that are missing, foreign or changed."""
    present = set(_files(folder, card)) if folder.is_dir() else set()
    return sorted(present ^ set(hashes)) or [
        name
        for name, expected in hashes.items()
        if not (folder / name).is_file() or sha256(folder / name) != expected  # a pipe or a device may have no end
    ]


def discard(folder: Path) -> None:
    """Remove a frozen folder; it is renamed first, so that no reader sees it half deleted."""
    doomed = folder.with_name(f"{PARTIAL}discarded-{folder.name}")
    folder.rename(doomed)
    shutil.rmtree(doomed)


def remove_partial(parent: Path) -> None:
    """Remove the incomplete folders that killed processes left. No other process may be writing there."""
    for partial in parent.glob(f"{PARTIAL}*"):
        shutil.rmtree(partial)
    sync_folder(parent)


def _files(folder: Path, card: str) -> list[str]:
    """Return the relative paths of all files in the folder except the card."""
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(path for path in paths if path != card)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal, as ``sha256sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable(folder: Path) -> None:
    """Flush every file of a folder to the disk, and make it read-only."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            sync_folder(path)
            continue
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.chmod(0o444)


MANIFEST_FILE = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Write the manifest of a folder, replacing an existing one."""
    write_sealed(folder / MANIFEST_FILE, hashes_of(folder, MANIFEST_FILE))


def check_manifest(folder: Path) -> None:
    """Raise DamagedFile, with the first such file, if one is missing, foreign or changed since it was written."""
    hashes: dict[str, str] = read_sealed(folder / MANIFEST_FILE, "")
    for name in changed_files(folder, MANIFEST_FILE, hashes)[:1]:
        if name not in hashes:
            raise DamagedFile(folder / name, "it was put there by something else")
        is_there = (folder / name).is_file()
        raise DamagedFile(folder / name, "it has changed since it was saved" if is_there else "it is missing")
