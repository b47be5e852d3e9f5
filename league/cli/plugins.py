"""The plugins that a command needs: those of ``--plugin``, and those of the runs that it names."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator
from pathlib import Path

from games.common import plugins

NAMES_RUNS = ("run", "runs", "player", "players", "opponent", "alternatives", "against", "reference", "source")


def load_plugins(arguments: argparse.Namespace) -> None:
    """Load the plugins of a command, so that it knows their games and players whatever it reads first.

    Raises UsageError for one that is missing.
    """
    plugins.require(arguments.plugin)
    for text in _texts(arguments):
        for folder in (Path(text), Path("runs") / text):
            plugins.require(_plugins_in(folder / "config.toml"))


def _texts(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what a command was given where runs may be named, each without its snapshot."""
    for name in NAMES_RUNS:
        given = getattr(arguments, name, None)
        for text in given if isinstance(given, list) else [given]:
            if text:
                yield text.partition("@")[0]


def _plugins_in(path: Path) -> tuple[str, ...]:
    """Return the plugins that a run's configuration names; what is wrong with that is told when the run is opened."""
    try:
        found = tomllib.loads(path.expanduser().read_text(encoding="utf-8")).get("plugins", ())
    except (OSError, ValueError):
        return ()
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()
