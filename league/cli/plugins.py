"""The plugins that a command needs: those of ``--plugin``, and those of the runs that it names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from games.common import plugins

NAMES_RUNS = (
    "run",
    "runs",
    "player",
    "players",
    "opponent",
    "alternatives",
    "against",
    "reference",
    "source",
    "snapshot",
)
STORED = ("replay",)  # commands that show what is kept, and no more


def load_plugins(arguments: argparse.Namespace) -> None:
    """Load the plugins of a command, so that it knows their games and players whatever it reads first.

    Those of ``--plugin`` are the person's choice; those of the runs that it names are loaded if he chose them before.
    To replay stored matches none is needed. Raises UsageError for one that is missing, or that was not chosen.
    """
    plugins.begin_command()
    plugins.allow(arguments.plugin)
    named = list(_texts(arguments))
    if not named:
        plugins.require(arguments.plugin)
        return
    from league.population.storage.run_dir import folders_of, load_plugins_of  # takes a moment to import

    plugins.require(arguments.plugin, folders_of(named))
    if arguments.command not in STORED:
        load_plugins_of(named)


def _texts(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what a command was given where runs may be named."""
    kept = ("run_dir",) if getattr(arguments, "resume", False) else ()  # what is gone on with
    for name in (*NAMES_RUNS, *kept):
        given = getattr(arguments, name, None)
        yield from (text for text in (given if isinstance(given, list) else [given]) if text)
