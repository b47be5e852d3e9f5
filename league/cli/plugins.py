"""The plugins that a command needs, from ``--plugin`` and from the runs that it names."""

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
STORED = ("replay",)  # commands that only show stored matches


def load_plugins(arguments: argparse.Namespace) -> None:
    """Load the plugins of a command, so that it knows their games and players whatever it reads first.

    Plugins of ``--plugin`` are the user's choice; plugins of named runs are loaded only if the user trusts them
    already. Replaying stored matches needs none. Raises UsageError for a plugin that is missing, or was not chosen.
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
    """Yield the values of a command's options that may name runs."""
    kept = ("run_dir",) if getattr(arguments, "resume", False) else ()  # a folder that is resumed
    for name in (*NAMES_RUNS, *kept):
        given = getattr(arguments, name, None)
        yield from (text for text in (given if isinstance(given, list) else [given]) if text)
