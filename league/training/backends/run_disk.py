"""The disk of a run's folder, for a process anywhere: by the same path, or piece by piece through the driver's machine.

A process sees the disk if it finds there what the driver wrote for it, and can write beside it. Where it does not, a
process on the driver's machine reads and writes for it, a piece at a time: no process holds a file whole.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

from games.common.files import atomic_write

PIECE = 1 << 26  # bytes of a file in one message at most
TOKEN_FILE = "disk"


class Reaches(Protocol):
    """A handle of the process on the driver's machine (``arena.cluster.ray_cluster.RemoteActor``)."""

    def call(self, method: str, *arguments: object) -> object:
        """Return a method's result."""


class DiskServer:
    """The object in a process on the driver's machine: reads and writes below the run's folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of each file below a folder, by its path from there."""
        return _sizes(self._root / folder)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return this many bytes of a file from an offset on, or all that there are."""
        return _piece(self._root / path, offset, size)

    def write(self, path: str, offset: int, piece: bytes) -> None:
        """Write the next piece of a file; one at offset 0 begins it."""
        _append(self._root / path, offset, piece)


class RunDisk:
    """The disk as one process reaches it; sent to it by the driver, which calls ``mark`` before."""

    def __init__(self, root: Path, server: Reaches) -> None:
        """``root`` is the absolute path of the run's folder on the driver's machine."""
        self._root, self._server, self._token, self._piece = root, server, secrets.token_hex(16), PIECE
        self.moved = 0  # bytes that this process had sent to it, and has sent

    def mark(self, folder: Path) -> RunDisk:
        """Write into a folder, on the driver's machine, by what other processes know the disk; return this."""
        self._marked = folder / TOKEN_FILE
        atomic_write(self._marked, self._token)
        return self

    @cached_property
    def seen(self) -> bool:
        """Whether this process sees the disk by the same path, and can write there."""
        answer = self._marked.with_name(f".{TOKEN_FILE}-{secrets.token_hex(8)}")
        try:
            if self._marked.read_text(encoding="utf-8") != self._token:
                return False
            answer.touch()
            answer.unlink()
        except OSError:
            return False
        return True

    @contextmanager
    def read(self, folder: Path) -> Iterator[Path]:
        """Yield a folder as this process reads it: itself, or a copy that is gone afterwards."""
        if self.seen:
            yield folder
            return
        with tempfile.TemporaryDirectory(prefix="league-") as copy:
            for name, size in self._sizes(folder).items():
                for offset in self._offsets(size):
                    length = min(self._piece, size - offset)
                    piece = self._server.call("read", str(self._below(folder) / name), offset, length)
                    assert isinstance(piece, bytes)
                    if len(piece) != length:
                        raise OSError(f"{folder / name} became shorter while it was read.")
                    _append(Path(copy) / name, offset, piece)
                    self.moved += length
            yield Path(copy)

    @contextmanager
    def written(self, folder: Path) -> Iterator[Path]:
        """Yield where this process writes the files of a folder; when the context ends, they are in it.

        Several processes may write different files of one folder.
        """
        if self.seen:
            folder.mkdir(parents=True, exist_ok=True)
            yield folder
            return
        with tempfile.TemporaryDirectory(prefix="league-") as here:
            yield Path(here)
            for name, size in _sizes(Path(here)).items():
                for offset in self._offsets(size):
                    piece = _piece(Path(here) / name, offset, self._piece)
                    self._server.call("write", str(self._below(folder) / name), offset, piece)
                    self.moved += len(piece)

    def _sizes(self, folder: Path) -> dict[str, int]:
        sizes = self._server.call("sizes", str(self._below(folder)))
        assert isinstance(sizes, dict)
        return sizes

    def _offsets(self, size: int) -> range:
        """Return where the pieces of a file begin; an empty one has a piece too."""
        return range(0, max(size, 1), self._piece)

    def _below(self, folder: Path) -> Path:
        return folder.relative_to(self._root)


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files below a folder, which others may be writing."""
    total = 0
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):
                total += path.stat().st_size
    return total


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def _piece(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def _append(path: Path, offset: int, piece: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(piece)
