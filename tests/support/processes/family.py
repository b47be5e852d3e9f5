"""The processes that a process has started, as Linux lists them, and whether they have ended."""

import os
import signal
import time
from pathlib import Path


def descendants(pid):
    """Return the ids of a process's children, their children, and so on; none once it is dead."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return []
    children = [int(word) for words in lists for word in words.split()]
    return [*children, *(one for child in children for one in descendants(child))]


def alive(pid):
    """Return whether a process runs; a dead one that nobody has collected yet does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def stay(file):
    """Write an empty file, and stay for a long time."""
    Path(file).touch()
    time.sleep(1000)


def survivors(pids, seconds=60.0):
    """Return which processes still run when so much time has passed, or none as soon as all have ended; kill those."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(alive, pids)):
        time.sleep(0.1)
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left
