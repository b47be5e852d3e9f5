"""Checks before a command works that it can write where it will, so that no result is lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

from games.common.errors import UsageError
from games.common.files import refuse_special

PICTURES = (".png", ".svg")


def file_to_write(text: str, option: str) -> Path:
    """Return the path of a file that can be written: new, or one that may be replaced.

    Nothing is left there. Raises UsageError, with ``option`` named, for an empty name, a folder, a device or another
    special file, and a place where no file can be made.
    """
    path = _path(text, option)
    if path.is_dir():
        raise UsageError(f"{option} {text}: it is a folder. Name a file, for example {path / 'matches.jsonl'}.")
    refuse_special(path)
    _check_writable(path.parent, f"{option} {text}")
    return path


def picture_to_write(text: str | None, option: str) -> Path | None:
    """Return the path of a picture that can be written, by ``file_to_write``; None where none is asked for.

    Raises UsageError for a name that is none of a picture, too.
    """
    if text is None:
        return None
    path = file_to_write(text, option)
    if path.suffix not in PICTURES:
        raise UsageError(f"{option} {text}: a picture is a .png or .svg file. Name one, for example {path.stem}.png.")
    return path


def folder_to_fill(text: str, option: str) -> Path:
    """Return the path of a folder that can be made, or that exists and can be written.

    Nothing is made. Raises UsageError, with ``option`` named, for an empty name, a file, and a place that takes none.
    """
    path = _path(text, option)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} {text}: it is a file. Name a folder, which is made if it is missing.")
    _check_writable(path, f"{option} {text}")
    return path


def _path(text: str, option: str) -> Path:
    if not text.strip() or "\0" in text:
        raise UsageError(f"{option} {text!r}: it needs a name. Give one, or leave {option} out.")
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long; a ~user who does not exist
        raise UsageError(f"{option} {text[:100]}: {getattr(error, 'strerror', None) or error}. Name another.") from None
    return path


def _check_writable(folder: Path, where: str) -> None:
    """Raise UsageError unless a file can be made in the folder, or in the nearest one above it that exists."""
    nearest = folder
    try:
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir():
            raise UsageError(f"{where}: {nearest} is a file, so nothing can be below it. Name another place.")
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise UsageError(
            f"{where}: nothing can be written in {nearest} ({error.strerror}). Name another place."
        ) from None
