"""The ``league`` command, one file a command in groups, and ``python``: what ``import league`` gives.

May import every wing. Heavy imports wait until a command runs, so that help is instant.
"""

from league.cli.dispatch import main

__all__ = ["main"]
