"""How much memory a process has held at most, for tests of what work needs."""

import re
import resource
from pathlib import Path


def most_resident() -> int:
    """Return the most bytes that this process has held.

    On Linux ``ru_maxrss`` begins with what the process that started this one held at that time: after a few hundred
    tests all peaks are alike, and no work seems to need any memory.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on a Mac
