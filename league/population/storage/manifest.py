"""Manifests: the SHA-256 of every file in a folder of saved state, so that only what was written is read back in.

A manifest is the last file that is written before its folder gets its name.
"""

from __future__ import annotations

from pathlib import Path

from games.common.errors import DamagedFile
from games.common.sealed_json import read_sealed, write_sealed
from league.population.storage.immutable_folder import changed_files, hashes_of

MANIFEST_FILE = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Write the manifest of a folder; one that is there is replaced."""
    write_sealed(folder / MANIFEST_FILE, hashes_of(folder, MANIFEST_FILE))


def check_manifest(folder: Path) -> None:
    """Raise DamagedFile, with the first such file, if one is missing, foreign or changed since it was written."""
    hashes: dict[str, str] = read_sealed(folder / MANIFEST_FILE, "")
    for name in changed_files(folder, MANIFEST_FILE, hashes)[:1]:
        if name not in hashes:
            raise DamagedFile(folder / name, "it was put there by something else")
        is_there = (folder / name).is_file()
        raise DamagedFile(folder / name, "it has changed since it was saved" if is_there else "it is missing")
