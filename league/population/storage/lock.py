"""A lock that lets one process train a run directory; the system releases it when its holder dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from games.common.errors import UsageError

LOCK_FILE = ".lock"  # contains the holder's process id, and stays after its death


@contextmanager
def run_lock(run_dir: Path, timeout: float = 0.0) -> Iterator[None]:
    """Lock a run directory for training. A forked child does not share the lock.

    Raises UsageError, with the holder's process id, if another process holds it for more than ``timeout`` seconds, and
    for a directory that cannot be made or written.
    """
    path = run_dir / LOCK_FILE
    # filelock's fallback, a soft lock, would stay locked after its holder was killed.
    lock = FileLock(path, timeout=timeout, poll_interval=0.01, fallback_to_soft=False, on_acquired=_write_holder)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        acquired = lock.acquire()
    except Timeout:
        holder = path.read_text(encoding="utf-8").strip() or "unknown"
        raise UsageError(
            f"{run_dir} is in use by process {holder}. Wait until it ends, stop it with Ctrl-C, or choose another "
            "directory with --run-dir."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{run_dir} cannot be written ({error.strerror}). Make it writable, or choose another directory with "
            "--run-dir."
        ) from error
    with acquired:
        yield


@contextmanager
def waiting_lock(folder: Path) -> Iterator[None]:
    """Lock a folder that several processes fill, waiting as long as another has it."""
    with FileLock(folder / LOCK_FILE, fallback_to_soft=False, on_acquired=_write_holder):
        yield


def held_file(path: Path) -> FileLock:
    """Return the lock of a file that only one process may write, to be released. Raises UsageError if another has
    it.
    """
    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0.0, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(f"Another process writes {path}. Wait until it ends, or name another file.") from None
    return lock


def _write_holder(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
