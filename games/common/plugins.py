"""Plugins: what modules and installed packages outside the project add to it, by group and name.

A plugin is a module that calls ``league.register_game``, ``register_roles``, ``register_credit`` and so on when it is
imported, or a package whose entry points name such objects, in the groups ``league.games``, ``league.roles`` and so on.
An entry point is loaded when its name is first looked for, so a package that nothing uses costs nothing and breaks
nothing.

What is registered is kept here, below everything that asks for it; each room checks what it takes.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

from games.common.errors import UsageError, unknown_name

GROUPS = {  # what an entry of each group is; the entry points of a group are in ``league.GROUP``
    "games": "game",
    "roles": "role card",
    "credit": "credit rule",
    "matchmaking": "matchmaking rule",
    "scripted": "scripted player",
    "engines": "engine",
}
EXPECTED = {  # the type of the entries
    "games": "callable",
    "roles": "pathlib.Path",
    "credit": "learners.advantages.rule.CreditRule",
    "matchmaking": "callable",
    "scripted": "callable",
    "engines": "league.population.players.model_engine.EngineKind",
}
_NAME = re.compile(r"[A-Za-z_]\w*")


class Registered(NamedTuple):
    """An entry of a plugin."""

    value: Any
    plugin: str  # the module or the package that has it, as ``plugins`` in a run's configuration names it


class Listed(NamedTuple):
    """One line of ``league plugins``."""

    plugin: str
    group: str
    name: str
    error: str = ""  # why it cannot be loaded; empty if it is


_registered: dict[tuple[str, str], Registered] = {}
_required: dict[str, None] = {}  # what was asked for by name, in this order
_loading: list[str] = []  # the plugins that are being loaded, the innermost last


def register(group: str, name: str, value: Any, built_in: Iterable[str] = ()) -> None:
    """Add an entry of a plugin to a group. The same value may be registered again.

    Raises UsageError for a name that is no name, or that is taken, also by what the project has ``built_in``.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a {GROUPS[group]}: use letters, digits and underscores.")
    known = _registered.get((group, name))
    if name in built_in or (known is not None and known.value is not value):
        owner = f"the plugin {known.plugin}" if known else "the league itself"
        raise UsageError(f"A plugin adds the {GROUPS[group]} {name!r}, but {owner} has one of that name. Rename it.")
    if known is None:
        _registered[group, name] = Registered(value, _loading[-1] if _loading else _home(value))


def lookup(group: str, name: str) -> Any:
    """Return an entry by name, loaded from an installed package if there is one that has it; None for no such name.

    Raises UsageError for an entry point that cannot be loaded, or is not ``EXPECTED``.
    """
    if (group, name) not in _registered and (found := _installed().get((group, name))):
        _load_entry_point(group, name, found)
    entry = _registered.get((group, name))
    return None if entry is None else entry.value


def names(group: str) -> list[str]:
    """Return the names that a group has, loaded or not."""
    return list(dict.fromkeys(name for kind, name in (*_registered, *_installed()) if kind == group))


def loaded(group: str) -> dict[str, Any]:
    """Return the entries of a group that are loaded."""
    return {name: entry.value for (kind, name), entry in _registered.items() if kind == group}


def plugin_of(group: str, name: str) -> str | None:
    """Return the plugin that an entry comes from; None for what is no plugin's, or was written in ``__main__``."""
    lookup(group, name)
    entry = _registered.get((group, name))
    return entry.plugin if entry is not None and entry.plugin != "__main__" else None


def require(plugins: Iterable[str]) -> None:
    """Load modules, and make sure of installed packages. Raises UsageError that names the one that is missing."""
    for plugin in plugins:
        if plugin not in _packages():
            _import(plugin)
        _required[plugin] = None


def required() -> list[str]:
    """Return the plugins that were asked for by name: what is kept now may need them to be read again."""
    return list(_required)


def begin_command() -> None:
    """Forget what was asked for by name, before a command that asks for its own; what is loaded stays loaded."""
    _required.clear()


def listed() -> list[Listed]:
    """Return all entries of all plugins; loads every installed one, and tells which of them cannot be."""
    rows = []
    for group in GROUPS:
        for name in names(group):
            try:
                lookup(group, name)
            except UsageError as error:
                rows.append(Listed(_package(_installed()[group, name]), group, name, str(error)))
            else:
                rows.append(Listed(_registered[group, name].plugin, group, name))
    return sorted(rows)


def _import(module: str) -> None:
    """Import a plugin's module, which registers what it has."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise unknown_name("plugin", module, _packages(), "A plugin is a module, as in import my_games, or a package.")
    _search_current_folder()
    with _loaded_as(module):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise _broken(module, error) from error
            raise UsageError(
                f"The plugin {module!r} is missing: Python finds no module of that name here, and no installed package "
                "with entry points for the league. Install the package that has it (pip install …), or run this where "
                f"{module}.py is. `league plugins` lists what is installed."
            ) from None
        except UsageError:
            raise
        except Exception as error:
            raise _broken(module, error) from error


def _load_entry_point(group: str, name: str, found: EntryPoint) -> None:
    plugin = _package(found)
    with _loaded_as(plugin):
        try:
            value = found.load()
        except Exception as error:
            raise _broken(f"{plugin} ({GROUPS[group]} {name})", error) from error
        module, _, cls = EXPECTED[group].rpartition(".")
        if not (isinstance(value, getattr(importlib.import_module(module), cls)) if module else callable(value)):
            raise UsageError(
                f"The plugin {plugin} has the {GROUPS[group]} {name!r} as an entry point, which is "
                f"{type(value).__name__}, not {EXPECTED[group]}: {found.value}."
            )
        register(group, name, value)


def _broken(plugin: str, error: Exception) -> UsageError:
    """Return the error of a plugin that fails when it is imported."""
    return UsageError(
        f"The plugin {plugin} cannot be loaded: {type(error).__name__}: {error}. Mend it, or take it out of `plugins`."
    )


@contextmanager
def _loaded_as(plugin: str) -> Iterator[None]:
    """Let what is registered within belong to a plugin."""
    _loading.append(plugin)
    try:
        yield
    finally:
        _loading.pop()


def _search_current_folder() -> None:
    """Let modules of the current folder be found too, after all others; also by processes that are started later."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _home(value: Any) -> str:
    """Return the outermost package of the module that defines a value."""
    return str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]


@cache
def _installed() -> dict[tuple[str, str], EntryPoint]:
    """Return the entry points of installed packages, by group and name."""
    return {(group, point.name): point for group in GROUPS for point in sorted(entry_points(group=f"league.{group}"))}


def _packages() -> set[str]:
    """Return the names of the installed packages that have entry points."""
    return {_package(point) for point in _installed().values()}


def _package(point: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]
