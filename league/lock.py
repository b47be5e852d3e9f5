"""One process a run directory: a lock that the system drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from games.errors import UsageError

LOCK_FILE = ".lock"


@contextmanager
def run_lock(run_dir: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a run directory for training.

    Raises UsageError, with the process named, if another one holds it for more than ``patience`` seconds.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    with (run_dir / LOCK_FILE).open("a+", encoding="utf-8") as file:
        deadline = time.monotonic() + patience
        while not _locked(file.fileno()):
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise UsageError(
                f"{run_dir} is in use by process {holder}. Wait until it ends, stop it with Ctrl-C, or choose another "
                "directory with --run-dir."
            )
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _locked(handle: int) -> bool:
    """Lock an open file; return False if another process has it locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
