"""Implementations that a setting chooses by name: each family is a ``Registry`` of ``Entry``, ours and plugins'.

A family says what it is and lists its entries. The rest follows: an unknown name is refused with the nearest ones,
``league.register_…`` and the entry points ``league.FAMILY`` of installed packages add to the family, ``[TABLE.NAME]``
of a run's configuration holds an entry's settings, and ``league show settings`` lists them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, ValidationInfo

from games.common import plugins
from games.common.errors import UsageError, unknown_name
from games.common.section import Section

MakeT = TypeVar("MakeT")
EntryT = TypeVar("EntryT", bound="Entry[Any]")

# By family or other group of plugins: the module that has it. It is imported when a configuration first asks for an
# entry: families stand above the configuration, whose tables they fill.
HOMES = {
    "games": "games.registry",
    "environments": "games.registry",
    "privileged": "games.privileged",
    "roles": "roles.cards",
    "slots": "roles.slots",
    "credit": "learners.advantages",
    "estimators": "learners.values",
    "selection": "learners.selection",
    "evidence": "league.training.evidence.sources",
    "matchmaking": "league.population.matchmaking.rules",
    "league_roles": "league.population.matchmaking.league_roles",
    "meta_solvers": "league.theory.meta_solvers",
    "joint_solvers": "league.theory.meta_solvers",
    "starts": "league.training.starts.rules",
    "branching": "league.population.matchmaking.branching",
    "breeding": "league.lab.breeding.rules",
    "scripted": "league.population.players.scripted",
    "engines": "league.population.players.model_engine",
    "trainers": "league.training.learning.trainers",
    "commands": "league.cli.commands",
    "losses": "learners.losses",
    "kl_estimators": "learners.losses.kl_estimators",
    "divergences": "learners.losses.divergences",
    "alarms": "league.training.monitors.alarms",
    "loggers": "league.training.board.loggers",
    "monitors": "league.training.board.observers",
    "figures": "league.training.board.observers",
    "evaluations": "league.training.snapshots.evaluations",
}


@dataclass(frozen=True, slots=True)
class Entry(Generic[MakeT]):
    """One thing that a setting can choose. What ``make`` takes and returns is for its family to say."""

    make: MakeT
    settings: type[Section] = Section  # its table of the configuration, [TABLE.NAME]; ``Section`` for none
    needs: AbstractSet[Any] = frozenset()  # what has to be known for it, in its family's words
    check: Callable[..., None] | None = None  # raises UsageError for a run that it cannot serve
    description: str = ""  # a sentence; empty: the first of ``make``'s docstring

    def __post_init__(self) -> None:
        if isinstance(self.needs, str):
            raise UsageError(
                f"needs = {self.needs!r} of a {type(self).__name__} is one string, where a set is "
                f"needed: write {{{self.needs!r}}}."
            )
        object.__setattr__(self, "needs", frozenset(self.needs))  # an entry is hashed, and a set cannot be

    @property
    def sentence(self) -> str:
        """What it does, without a full stop at the end."""
        text = self.description or (getattr(self.make, "__doc__", None) or "")
        return text.strip().partition("\n\n")[0].replace("\n", " ").rstrip(".")


class Registry(dict[str, EntryT]):
    """A family: the project's entries by name, and then plugins' entries, which ``[name]`` finds too.

    ``family`` is its name, as in the entry points ``league.FAMILY``; ``noun`` is what messages call an entry, ``kind``
    the class of its entries and ``setting`` what chooses one. Where ``kind`` is ``Entry`` itself a plugin may give a
    function alone. ``reserved`` are names that no plugin's entry can have: the table has settings of those names.
    Settings of a ``flat`` family are in the table itself: "own", of the project's entries; "all", of plugins' too.
    """

    def __init__(
        self,
        family: str,
        noun: str,
        kind: type[EntryT],
        setting: str,
        own: Mapping[str, EntryT],
        reserved: Iterable[str] = (),
        *,
        flat: Literal["", "own", "all"] = "",
    ) -> None:
        super().__init__(own)
        self.flat = flat
        self.family, self.noun, self.kind, self.setting, self._reserved = family, noun, kind, setting, tuple(reserved)
        plugins.add_group(family, noun, self._accepted, self._wrong)
        _families[family] = self

    def __missing__(self, name: str) -> EntryT:
        """Return a plugin's entry; an installed one is loaded. Raises UsageError with the nearest names."""
        entry: EntryT | None = plugins.lookup(self.family, name)
        if entry is None:
            raise unknown_name(self.noun, name, self.names(), f"Set {self.setting}.")
        return entry

    def names(self) -> list[str]:
        """Return all names: ours, then plugins', whether they are loaded or not."""
        return list(dict.fromkeys([*self, *plugins.names(self.family)]))

    def has_table(self, name: str) -> bool:
        """Return whether an entry has a table of its own in a run's configuration."""
        return bool(self[name].settings.model_fields) and not (self.flat == "all" or (self.flat and name in self))

    def loaded(self) -> dict[str, EntryT]:
        """Return our entries and those of loaded plugins."""
        return self | plugins.loaded(self.family)

    def chosen_by(self, name: str) -> str:
        """Return the setting that chooses an entry, as a person writes it."""
        return f"{self.setting} = {name}" if "." in self.setting else f"{self.setting}.{name}"

    @property
    def all_asked(self) -> bool:
        """Whether a run uses every entry that is loaded, so that no setting but ``plugins`` chooses one."""
        return self.setting == "plugins"

    def added(self) -> dict[str, EntryT]:
        """Return the entries of plugins that are loaded."""
        return plugins.loaded(self.family)

    def register(self, name: str, entry: EntryT | Callable[..., Any]) -> None:
        """Add a plugin's entry. Raises UsageError for a name that is taken, or for what is not an entry."""
        plugins.register(self.family, name, entry, built_in=(*self, *self._reserved))

    def _accepted(self, value: Any) -> EntryT | None:
        """Return what a plugin gives as an entry; None for what cannot be one."""
        if isinstance(value, self.kind):
            return value
        return self.kind(value) if self.kind is Entry and callable(value) else None

    def _wrong(self, entry: EntryT) -> str:
        """Return what is wrong with a plugin's entry, in a clause: its fields, or what ``make`` takes; "" if right."""
        if not (isinstance(entry.settings, type) and issubclass(entry.settings, Section)):
            return f"its settings are {entry.settings!r}, and no class derived from Section (games.common.section)"
        for field in fields(entry):
            value, kind = getattr(entry, field.name), str(field.type)
            if kind.startswith("Callable") and not (callable(value) or (value is None and "None" in kind)):
                return f"its {field.name} is {value!r}, which cannot be called"
            if kind in _PLAIN and not isinstance(value, _PLAIN[kind]):
                return f"its {field.name} is {value!r}, and should be of type {kind}"
        if entry.make is None and "None" in str(getattr(self.kind, "__orig_bases__", "")):
            return ""  # a family where there may be nothing to make
        if not callable(entry.make):
            return f"its make is {entry.make!r}, which cannot be called"
        return self._called_otherwise(entry)

    def _called_otherwise(self, entry: EntryT) -> str:
        """Return how the family calls ``make``, if a plugin's ``make`` cannot be called that way; "" if it can."""
        calls = [call for own in self.values() if callable(own.make) for call in _positional(own.make)]
        counts = {len(call) + extra for call in calls for extra in ((0, 1) if entry.settings.model_fields else (0,))}
        try:
            signature = inspect.signature(entry.make)
        except (TypeError, ValueError):  # of a builtin
            return ""
        if not counts or any(_binds(signature, count) for count in counts):
            return ""
        asked = ", ".join(name.lstrip("_") or "…" for name in calls[0])
        article = "an" if self.noun[0] in "aeiou" else "a"
        return f"its make is written {signature}; {article} {self.noun} is called with {len(calls[0])}: ({asked})"


_PLAIN = {"bool": bool, "str": str}  # types of an entry's fields


def _positional(make: Callable[..., Any]) -> list[tuple[str, ...]]:
    """Return the names of the arguments that a function of ours has to be given, in a list; [] if it is not known."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return []
    return [tuple(one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD)]


def _binds(signature: inspect.Signature, count: int) -> bool:
    """Return whether a function can be called with this many arguments."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


_families: dict[str, Registry[Any]] = {}


def family(name: str) -> Registry[Any]:
    """Return a family by name; its module is imported if nothing has imported it yet."""
    if name not in _families:
        importlib.import_module(HOMES[name])
    return _families[name]


def families() -> list[Registry[Any]]:
    """Return all families, in the order of ``HOMES``; the modules of all groups are imported."""
    for module in HOMES.values():
        importlib.import_module(module)
    return [_families[name] for name in HOMES if name in _families]


def listed() -> list[plugins.Listed]:
    """Return all entries of all plugins, loaded; only the modules of what they add to are imported."""
    for group, module in HOMES.items():
        if plugins.names(group):
            importlib.import_module(module)
    return plugins.listed()


def imported() -> list[Registry[Any]]:
    """Return the families whose modules something has imported."""
    return list(_families.values())


@dataclass(frozen=True, slots=True)
class Named:
    """Marks a field of the configuration that takes the name of a family's entry.

    ``table`` is where the entries' own tables are, dotted; empty: in the table of the field itself.
    """

    family: str
    table: str = ""

    def names(self) -> list[str]:
        """Return what the field takes."""
        return family(self.family).names()


def name_of(family_name: str, table: str = "") -> Any:
    """Return the type of a field that takes the name of an entry: a string that is checked when it is set.

    ``table`` is where the entries' own tables are, dotted; empty: in the table of the field itself.
    """

    def known(name: str, field: ValidationInfo) -> str:
        entries = family(family_name)
        if name not in entries.names():  # a family that two fields choose from: the one that is wrong is named
            setting = f"{entries.setting.rpartition('.')[0]}.{field.field_name}".lstrip(".")
            raise unknown_name(entries.noun, name, entries.names(), f"Set {setting}.")
        entries[name]
        return name

    return Annotated[str, AfterValidator(known), Named(family_name, table)]


def tables(entries: Mapping[str, Entry[Any]]) -> dict[str, Any]:
    """Return the fields of a table that has one of its own for each entry with settings, for ``create_model``."""
    return {name: (entry.settings, entry.settings()) for name, entry in entries.items() if entry.settings.model_fields}
