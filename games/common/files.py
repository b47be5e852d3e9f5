"""Atomic writes, so that a file holds its whole old or its whole new content; and reading what strangers have sent."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
import tomllib
from pathlib import Path
from typing import Any

from games.common.errors import UsageError

MOST_BYTES = 1 << 32  # of a file that is read whole
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


def atomic_write(path: Path, content: bytes | str) -> None:
    """Write a file atomically: at every moment it holds all of its old content or all of the new.

    The content goes to a temporary file in the same folder (made if it is missing), is forced to
    disk and renamed. Text is written as UTF-8. Raises UsageError for a device or another special file, and OSError
    as the system does; the temporary file is then removed.
    """
    refuse_special(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:  # of a write
            error.filename = str(path)
        raise
    sync_folder(path.parent)


def refuse_special(path: Path) -> None:
    """Raise UsageError for a device, a pipe or a socket: a file that is renamed would take its place."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{path} is a device or another special file, which is not replaced. Name a file.")


def is_leftover(path: Path) -> bool:
    """Return whether a path is named like a temporary file of ``atomic_write``, which a kill may leave."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path, below: bool = True) -> None:
    """Remove the temporary files of killed writers in a folder, and ``below`` it. No process may be writing there."""
    for path in [path for path in folder.glob("**/.*.tmp" if below else ".*.tmp") if is_leftover(path)]:
        path.unlink()


def parse_json(text: str) -> Any:
    """Return the data of a JSON text from outside.

    Raises ValueError, which a JSONDecodeError is too, also for one that is nested too deeply to be read, and for half a
    surrogate pair in it, which cannot be written again.
    """
    try:
        data = json.loads(text)
        if r"\ud" in text.lower():
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return data


def parse_toml(text: str) -> dict[str, Any]:
    """Return the data of a TOML text from outside. Raises ValueError as ``parse_json`` does."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_file(path: Path) -> bytes:
    """Return the content of a file from outside.

    Raises OSError, which says so, for a pipe or a device, which may have no end, and for more than ``MOST_BYTES`` or
    than the memory holds: the size of a sparse file costs nothing.
    """
    facts = path.stat()
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        raise OSError(errno.ENODEV, "it is a pipe or a device and not a file", str(path))
    try:
        if facts.st_size <= MOST_BYTES:
            return path.read_bytes()
    except MemoryError:
        pass
    raise OSError(errno.EFBIG, "it is too large to be read", str(path))


def read_json(path: Path) -> Any:
    """Return the data of a JSON file from outside. Raises as ``read_file`` and ``parse_json`` do."""
    return parse_json(read_file(path).decode())


def read_toml(path: Path) -> dict[str, Any]:
    """Return the data of a TOML file from outside. Raises as ``read_file`` and ``parse_toml`` do."""
    return parse_toml(read_file(path).decode())


def link(source: Path, target: Path) -> None:
    """Give a file, or every file of a folder, a second name; where the file system has no links, copy it."""
    if source.is_dir():
        target.mkdir()
        for path in source.iterdir():
            link(path, target / path.name)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, so that a rename in it outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_files(folder: Path) -> None:
    """Force a folder's files and entries to disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def sync_tree(folder: Path) -> None:
    """Force all files below a folder, and the entries of all its folders, to disk."""
    for path in [folder, *folder.rglob("*")]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
