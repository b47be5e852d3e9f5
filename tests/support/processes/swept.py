"""What a process of a sweep holds in tests, and what is asked about a run there."""

import os
import sys
import time
from pathlib import Path

from games.common.errors import UsageError


class Answers:
    """Answers each kind of call."""

    def __init__(self, number):
        self._number = number

    def threads(self):
        return self._number, os.environ["OMP_NUM_THREADS"]

    def refuses(self):
        raise UsageError("not this way")

    def breaks(self):
        return self._number / 0

    def dies(self):
        sys.stdout.flush()
        os._exit(3)

    def sleeps(self, path):
        Path(path).write_text(str(os.getpid()))
        time.sleep(60)


def last_lines(run_dir):
    """Return a run's last metrics."""
    import league

    return {"lines": len(league.open_run(run_dir).iterations()), "process": os.getpid()}
