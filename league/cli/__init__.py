"""The ``league`` command: parsers in groups, and the dispatch to ``league.commands``. May import every room.

Heavy imports wait until a command needs them, so that help is instant: a group of parsers here names the room of
``league.commands`` that has the commands themselves.
"""

from league.cli.dispatch import main

__all__ = ["main"]
