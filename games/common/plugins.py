"""Plugins: what modules and installed packages outside the project add to it, by group and name.

A plugin is a module that calls ``league.register_game``, ``register_roles``, ``register_credit`` and so on when it is
imported, or a package whose entry points name such objects, in the groups ``league.games``, ``league.roles`` and so on.
An entry point is loaded when its name is first looked for, so a package that nothing uses costs nothing and breaks
nothing.

A module is imported only if the person chose it: by name (``--plugin``, ``allow``), for good (a line of
``trust_file()``), by importing it in a program of their own, or by installing a package with entry points. Files of
others, such as a run's configuration, name plugins too, and to import is to run.

What is registered is kept here, below everything that uses it; each user checks what it gets.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PREFIX = "league."  # of the groups of entry points
ALLOWED = "LEAGUE_PLUGINS"  # of the environment: what the person named, for the processes that this one starts
_OURS = ("games", "roles", "arena", "learners", "league")  # this project's packages
_NAME = re.compile(r"[A-Za-z_]\w*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")  # of environments, which are called as Python imports them


class Registered(NamedTuple):
    """An entry of a plugin."""

    value: Any
    plugin: str  # the module or the package that has it, as ``plugins`` in a run's configuration names it


class PluginGroup(NamedTuple):
    """What plugins can add to; the entry points of a group are in ``league.GROUP``."""

    noun: str  # what one of its entries is called in messages
    accepted: Callable[[Any], Any]  # returns what is given as an entry of the group; None for what cannot be one
    names: re.Pattern[str]
    wrong: Callable[[Any], str] = lambda _: ""  # says what is wrong with an entry, in a clause; "" for nothing


class Listed(NamedTuple):
    """One line of ``league show plugins``."""

    plugin: str
    group: str
    name: str
    error: str = ""  # why it cannot be loaded; empty if it is


_groups: dict[str, PluginGroup] = {}
_registered: dict[tuple[str, str], Registered] = {}
_required: dict[str, None] = {}  # what was asked for by name, in this order
_loading: list[str] = []  # the plugins that are being loaded, the innermost last
_inherited = os.environ.get(ALLOWED, "")  # what the person named to the process that started this one
_searched: list[str] = []  # the current folder, once a plugin that the person named was found there


def add_group(
    group: str,
    noun: str,
    accepted: Callable[[Any], Any],
    wrong: Callable[[Any], str] = lambda _: "",
    *,
    dotted: bool = False,
) -> None:
    """Add a group that plugins can add to; its names are ``dotted`` where they are those of modules."""
    _groups[group] = PluginGroup(noun, accepted, _DOTTED if dotted else _NAME, wrong)


def noun_of(group: str) -> str:
    """Return what an entry of a group is called."""
    return _groups[group].noun


def register(group: str, name: str, value: Any, built_in: Iterable[str] = ()) -> None:
    """Add an entry of a plugin to a group. The same value may be registered again.

    Raises UsageError for a name that is no name, or that is taken, also by what the project has ``built_in``, and for a
    value that cannot be an entry of the group.
    """
    noun = _groups[group].noun
    article_noun = _with_article(noun)
    if not _groups[group].names.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of {article_noun}: use letters, digits and underscores.")
    entry, known = _groups[group].accepted(value), _registered.get((group, name))
    if name in built_in or (known is not None and known.value != entry):
        owner = f"the plugin {known.plugin}" if known else "the league itself"
        raise UsageError(f"A plugin adds the {noun} {name!r}, but {owner} has one of that name. Rename it.")
    if entry is None:
        raise UsageError(
            f"A plugin gives {value!r} as the {noun} {name!r}, which is {_kind(value)}, not {article_noun}."
        )
    if wrong := _groups[group].wrong(entry):
        raise UsageError(f"A plugin gives the {noun} {name!r}, and {wrong}.")
    if known is None:
        _registered[group, name] = Registered(entry, _loading[-1] if _loading else _home(value))


def lookup(group: str, name: str) -> Any:
    """Return an entry by name, loaded from an installed package if there is one that has it; None for no such name.

    Raises UsageError for an entry point that cannot be loaded, or is not an entry of its group.
    """
    if (group, name) not in _registered and (found := _installed().get((group, name))):
        _load_entry_point(group, name, found)
    entry = _registered.get((group, name))
    return None if entry is None else entry.value


def names(group: str) -> list[str]:
    """Return the names that a group has, loaded or not."""
    return list(dict.fromkeys(name for kind, name in (*_registered, *_installed()) if kind == group))


def loaded(group: str) -> dict[str, Any]:
    """Return the entries of a group that are loaded, with all of the installed packages that were asked for by name."""
    if _required:  # it takes a while to read what all packages have
        for (kind, name), point in _installed().items():
            if kind == group and _package(point) in _required:
                lookup(group, name)
    return {name: entry.value for (kind, name), entry in _registered.items() if kind == group}


def plugin_of(group: str, name: str) -> str | None:
    """Return the plugin that an entry comes from; None for what is not a plugin's, or was written in ``__main__``."""
    lookup(group, name)
    entry = _registered.get((group, name))
    return entry.plugin if entry is not None and entry.plugin != "__main__" else None


def allow(plugins: Iterable[str]) -> None:
    """Let plugins be loaded that the person named himself, here and in the processes that this one starts."""
    os.environ[ALLOWED] = ",".join(dict.fromkeys([*_allowed(), *plugins]))


def as_options() -> str:
    """Return what the user named as options, for a suggested command: " --plugin my_games", or nothing."""
    return "".join(f" --plugin {name}" for name in _allowed())


def trust_file() -> Path:
    """Return the user's list of modules to trust, no matter who names them: one a line; a comment follows #."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".config") / "league" / "plugins"


def may_load(plugin: str) -> bool:
    """Return whether the person chose a plugin, as the head of this file says."""
    return plugin in _packages() or plugin in _allowed() or plugin in _trusted() or _imported(plugin)


def chosen_for(module: str) -> str | None:
    """Return the plugin to whose package a module belongs, of those that the person named or trusts; None for none."""
    return next((name for name in (*_allowed(), *_trusted()) if f"{module}.".startswith(f"{name}.")), None)


def require(plugins: Iterable[str], foreign: Iterable[Path] = ()) -> None:
    """Load modules that the person chose, and make sure of installed packages.

    No module is taken from a ``foreign`` folder, which is a run's or another's that may be a stranger's. Raises
    UsageError that names the one that is missing, that is there, or that the person did not choose.
    """
    for plugin in plugins:
        if plugin not in _packages():
            _import(plugin, [*foreign])
        _required[plugin] = None


def required() -> list[str]:
    """Return the plugins that were asked for by name: what is kept now may need them to be read again."""
    return list(_required)


def begin_command() -> None:
    """Forget what was asked for by name, before a command that asks for its own; what is loaded stays loaded."""
    _required.clear()
    os.environ[ALLOWED] = _inherited


def listed() -> list[Listed]:
    """Return all entries of all plugins; loads every installed one, and reports those that fail to load."""
    rows = []
    for group in _groups:
        for name in names(group):
            try:
                lookup(group, name)
            except UsageError as error:
                rows.append(Listed(_package(_installed()[group, name]), group, name, str(error)))
            else:
                rows.append(Listed(_registered[group, name].plugin, group, name))
    return sorted(rows)


def _allowed() -> list[str]:
    return [name for name in os.environ.get(ALLOWED, "").split(",") if name]


def _trusted() -> list[str]:
    try:
        lines = trust_file().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, RuntimeError):  # there is no such file, or no home
        return []
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def _imported(plugin: str) -> bool:
    """Return whether the person's own program has imported a plugin: a module of the name that has registered."""
    return plugin in sys.modules and any(f"{plugin}.".startswith(f"{own.plugin}.") for own in _registered.values())


def _import(module: str, foreign: list[Path]) -> None:
    """Import a plugin's module, which registers what it has."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise unknown_name("plugin", module, _packages(), "A plugin is a module, as in import my_games, or a package.")
    if not may_load(module):
        raise UsageError(
            f"The plugin {module!r} is named by the file you are reading, not by you, and loading it runs its code. "
            f"If you trust it, add --plugin {module}; or, to trust it always, add the line {module} in "
            f"{trust_file()}. From Python, import it first."
        )
    if module in sys.modules:
        allow([module])  # in the processes that this one starts too
    else:
        _check_place(module, foreign)
    with _loaded_as(module):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise _broken(module, error) from error
            raise _missing(module) from None
        except (Exception, SystemExit) as error:
            raise _broken(module, error) from error


def _check_place(module: str, foreign: list[Path]) -> None:
    """Raise UsageError for a module that is missing, or whose file is in a foreign folder; nothing is imported."""
    spec = _found(module.partition(".")[0], here=module in _allowed())
    if spec is None:
        raise _missing(module)
    own = [spec.origin] if spec.has_location and spec.origin else []
    files = [Path(file).resolve() for file in (*own, *(spec.submodule_search_locations or ()))]
    for folder in foreign:
        if any(file.is_relative_to(folder.resolve()) for file in files):
            raise UsageError(
                f"The plugin {module!r} would be loaded from {files[0]}, and no code in this folder is run: "
                f"{folder}. If it is yours, keep it outside that folder, and run the command from where it is."
            )


def _found(package: str, here: bool) -> ModuleSpec | None:
    """Return where Python finds a package, and the current folder after all others if it may be ``here``."""
    if package in sys.modules:
        return sys.modules[package].__spec__ or ModuleSpec(package, None)
    path = list(sys.path)
    sys.path[:] = _own_path()
    try:
        found = importlib.util.find_spec(package)
    finally:
        sys.path[:] = path
    if found is None and here:
        _search_current_folder()
        found = importlib.util.find_spec(package)
    return found


def _own_path() -> list[str]:
    """Return where Python looks for modules, without the current folder, which may be a stranger's."""
    return [folder for folder in sys.path if folder and folder not in _searched]


def _missing(module: str) -> UsageError:
    return UsageError(
        f"The plugin {module!r} is missing: Python finds no module of that name here, and no installed package "
        "with entry points for the league. Install the package that has it (pip install …), or run this where "
        f"{module}.py is, with --plugin {module}. `league show plugins` lists what is installed."
    )


def _load_entry_point(group: str, name: str, found: EntryPoint) -> None:
    plugin = _package(found)
    with _loaded_as(plugin):
        try:
            value = found.load()
        except (Exception, SystemExit) as error:
            raise _broken(f"{plugin} ({_groups[group].noun} {name})", error) from error
        if _groups[group].accepted(value) is None:
            raise UsageError(
                f"The plugin {plugin} has the {_groups[group].noun} {name!r} as an entry point, which is "
                f"{_kind(value)}, not {_with_article(_groups[group].noun)}: {found.value}."
            )
        register(group, name, value)


def _broken(plugin: str, error: BaseException) -> UsageError:
    """Return the error of a plugin that fails when it is imported, with the line of its own code that was reached."""
    place = _place(error)
    if isinstance(error, UsageError):  # of ``register``, which says what is wrong itself
        return UsageError(f"{place}: {error}" if place else str(error))
    kind = f"{type(error).__name__}: {error}".removesuffix(".")
    at = f" ({place})" if place and not isinstance(error, SyntaxError) else ""  # which names its own line
    return UsageError(f"The plugin {plugin} cannot be loaded: {kind}{at}. Fix it, or remove it from `plugins`.")


def _place(error: BaseException) -> str:
    """Return the file and line that an import reached last outside this project, Python and installed packages.

    Of a plugin that is installed it is the first line of its own; "" for none.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_plugins(frame.filename)]
    own = [frame for frame in frames if "site-packages" not in frame.filename][-1:] or frames[:1]
    return f"{own[0].filename}, line {own[0].lineno}" if own else ""


def _is_plugins(file: str) -> bool:
    """Return whether a file may be a plugin's: neither Python's own nor one of this project."""
    here, python = Path(__file__).parents[2], Path(sysconfig.get_path("stdlib"))
    ours = any(Path(file).is_relative_to(here / package) for package in _OURS)
    pythons = Path(file).is_relative_to(python) and "site-packages" not in file
    return not file.startswith("<") and not ours and not pythons


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
        _searched.append(here)


def _kind(value: Any) -> str:
    """Return what a value is, with its article."""
    return _with_article(type(value).__name__)


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _home(value: Any) -> str:
    """Return the outermost package of the module that defines a value."""
    return str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]


@cache
def _installed() -> dict[tuple[str, str], EntryPoint]:
    """Return the entry points of installed packages, by group and name: not of what lies in the current folder."""
    from importlib.metadata import distributions  # slow to import, as it needs Python's e-mail

    packages = [
        (package, [point for point in package.entry_points if point.group.startswith(PREFIX)])
        for package in distributions(path=_own_path())
    ]
    if not any(own for _, own in packages):
        return {}  # reading the name of each package takes a tenth of a second
    of_first = {package.name: own for package, own in reversed(packages)}  # Python imports the first of a name
    points = sorted(point for own in of_first.values() for point in own)
    return {(point.group.removeprefix(PREFIX), point.name): point for point in points}


def _packages() -> set[str]:
    """Return the names of the installed packages that have entry points."""
    return {_package(point) for point in _installed().values()}


def _package(point: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]
