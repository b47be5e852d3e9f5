"""The ``league`` command, one file a command in groups, and ``python``: what ``import league`` gives.

May import every wing. Heavy imports wait until a command runs, so that help is instant.
"""

import gc
import sys
from collections.abc import Sequence

from games.common.limits import GC_THRESHOLDS

__all__ = ["command", "main"]


def command() -> int:
    """Run ``main`` as a process of its own, which searches for cycles of garbage seldom, and not at its end.

    Importing torch makes half a million objects. To search them again and again took a second, and their end another.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    status = main()
    gc.freeze()
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status, as ``dispatch.main`` does; Ctrl-C may come before its import."""
    try:
        from league.cli import dispatch
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return 130
    return dispatch.main(argv)
