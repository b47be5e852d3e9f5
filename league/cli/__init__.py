"""The ``league`` command, one file a command in groups, and ``python``: what ``import league`` gives.

May import every wing. Heavy imports wait until a command runs, so that help is instant.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status, as ``dispatch.main`` does; Ctrl-C may come before its import."""
    try:
        from league.cli import dispatch
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return 130
    return dispatch.main(argv)
