"""Completion in the shell when a user presses TAB (https://kislyuk.github.io/argcomplete)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from league.cli.plugins import NAMES_RUNS

PRESETS = Path(__file__).parent.parent / "presets"


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions of the words so far, and end the process, if a shell asks for them."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    for command in _commands(parser):
        for action in command._actions:
            if action.dest == "config":
                setattr(action, "completer", _presets)  # noqa: B010  # argcomplete's way
            elif action.dest == "set":
                setattr(action, "completer", _settings)  # noqa: B010  # argcomplete's way
            elif action.dest in NAMES_RUNS:
                setattr(action, "completer", _runs)  # noqa: B010
    argcomplete.autocomplete(parser)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from (command, *_commands(command))


def _presets(**_: Any) -> list[str]:
    return sorted([*(path.stem for path in PRESETS.glob("*.toml")), *map(str, Path().glob("*.toml"))])


def _settings(prefix: str, **_: Any) -> list[str]:
    """Return the keys of settings and, after a key, its values if they are a list of words."""
    from league.cli.showing.settings import run as settings  # reads every table, which takes a second

    key, equals, _value = prefix.partition("=")
    all_settings = settings(argparse.Namespace(word="", all=True))
    if not equals:
        return [f"{setting.name}=" for setting in all_settings]
    kinds = [setting.kind.removesuffix(" or none") for setting in all_settings if setting.name == key]
    return [f"{key}={word}" for kind in kinds if " | " in kind for word in kind.split(" | ")]


def _runs(**_: Any) -> list[str]:
    return sorted(str(path.parent) for path in Path("runs").glob("[!.]*/config.toml"))
