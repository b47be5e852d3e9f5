"""The keys that families add to a run's configuration: an entry's table of settings, an opponent rule's weight.

A run's configuration is a ``RunConfig``. With such entries its class is derived from that and has their keys too, so
that they are checked, described and offered in messages like all others. Only the family whose entries are chosen by
weights is named here: fields of the type ``name_of(family)`` say which families there are and where their tables are.
A plugin's key is left out of a run's TOML if the run does not use it, and such a run does not need the plugin.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from games.common import plugins
from games.common.registry import Named, family, imported
from games.common.section import NonNegative, Section
from games.registry import with_submatches
from league.config.run import RunConfig

_WORD = re.compile(r"[A-Za-z_][\w.:]*")
EACH = "*"  # of a path: every key of a table, or every entry of a list
WEIGHED, WEIGHTS, OWN_TABLES = "matchmaking", ("matchmaking",), ("matchmaking", "settings")

Path = tuple[str, ...]  # of a key, from the configuration


class Choice(NamedTuple):
    """A field of the configuration that chooses entries of a family by name."""

    family: str
    path: Path
    table: Path  # that has a table for each entry with settings


def prepared(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a configuration after the plugins that it names, or uses, are loaded.

    A used entry with settings that ``RunConfig`` has no table for gets one, so that the run keeps its settings. Raises
    UsageError for a plugin that is missing, or that the user did not choose (``games.common.plugins``).
    """
    table = dict(data)
    wanted = table.get("plugins", ())
    if isinstance(wanted, list | tuple) and all(isinstance(name, str) for name in wanted):
        plugins.require(wanted)
    for group, path in _places():
        for section in _at(table, path):
            for name in section if isinstance(section, Mapping) else ():
                _load(group, name)
    for choice, name in _chosen(table):
        _load(choice.family, name)
        if name in family(choice.family).loaded() and family(choice.family).has_table(name):
            table = _with_table(table, (*choice.table, name))
    weights: Any = table.get(WEIGHED)
    for name in plugins.loaded(WEIGHED) if isinstance(weights, Mapping) else ():
        if weights.get(name) and family(WEIGHED).has_table(name):
            table = _with_table(table, (*OWN_TABLES, name))
    return table


def config_model() -> type[RunConfig]:
    """Return the class of configurations with the keys of all entries that are loaded."""
    added = [
        (*OWN_TABLES[:-1], name, NonNegative, f"weight of: {entry.sentence or f'the rule {name}'}")
        for name, entry in plugins.loaded(WEIGHED).items()
    ]
    tables = dict(_tables())
    for registry in imported():
        for name, entry in registry.loaded().items() if registry.family in tables else ():
            if registry.has_table(name):
                added.append((*tables[registry.family], name, entry.settings, ""))
            elif registry.flat == "all":
                fields = entry.settings.model_fields.items()
                added += [(*tables[registry.family], key, field.annotation, field) for key, field in fields]
    new = tuple(row for row in added if not _is_there(RunConfig, row[:-2]))
    return _extended(new) if new else RunConfig


def used_plugins(config: RunConfig) -> list[str]:
    """Return the plugins whose games, role cards, players or entries of families a run uses, sorted."""
    players = [*config.evaluation.anchors, *config.matchmaking.guests, *config.cold_start.players]
    players += [*config.roles.player.values(), config.teacher.player, *config.teacher.players.values()]
    games = [word for name in with_submatches(config.games) for word in _WORD.findall(name)]  # a wrapper's game too
    used = [(group, name) for group in ("games", "roles") for name in games]
    used += [("environments", name.removeprefix("pettingzoo:")) for name in games if name.startswith("pettingzoo:")]
    used += [("scripted", name.partition(":")[0]) for name in players]
    used += [(choice.family, name) for choice, name in _chosen(config) if name in plugins.names(choice.family)]
    used += [("evidence", need) for choice, name in _chosen(config) for need in _asked_for(choice.family, name)]
    used += [(registry.family, name) for registry in imported() if registry.all_asked for name in registry.added()]
    for group, path in _places():
        sections = [section for section in _at(config, path) if section is not None]
        used += [(group, name) for name in plugins.loaded(group) for it in sections if getattr(it, name, None)]
    sources = {plugins.plugin_of(group, name) for group, name in used}
    sources |= {plugins.chosen_for(name) for group, name in used if group == "environments"}
    return sorted(name for name in sources if name is not None)


def settings_of(config: RunConfig, group: str, name: str) -> Section | None:
    """Return the settings of an entry of a family in a run; None for one that has no table there."""
    path = (*dict(_tables())[group], name)
    return next((section for section in _at(config, path) if isinstance(section, Section)), None)


def own_tables() -> dict[str, str]:
    """Return, by family, the dotted table that holds the tables of its entries with settings."""
    return {group: ".".join(path) for group, path in _tables()}


def chosen_entries(config: RunConfig) -> list[tuple[str, str]]:
    """Return the entries that a run chooses, each once: family and name."""
    by_weight = [(WEIGHED, rule) for rule, weight in config.matchmaking.opponent_shares.items() if weight]
    return list(dict.fromkeys([*((choice.family, name) for choice, name in _chosen(config)), *by_weight]))


@cache
def _choices() -> tuple[Choice, ...]:
    return tuple(_choices_of(RunConfig, (), ()))


def _choices_of(annotation: Any, metadata: Sequence[Any], path: Path) -> Iterator[Choice]:
    """Yield the fields in a type that take names of entries."""
    parts = get_args(annotation)
    for mark in metadata:
        if isinstance(mark, Named):
            of_field = tuple(part for part in path if part != EACH)[:-1]
            yield Choice(mark.family, path, tuple(mark.table.split(".")) if mark.table else of_field)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from _choices_of(field.annotation, field.metadata, (*path, name))
    elif get_origin(annotation) is Annotated:
        yield from _choices_of(parts[0], parts[1:], path)
    elif get_origin(annotation) in (dict, list, tuple):
        yield from _choices_of(parts[1 if get_origin(annotation) is dict else 0], (), (*path, EACH))
    else:
        for part in parts:
            yield from _choices_of(part, (), path)


def _tables() -> Iterator[tuple[str, Path]]:
    """Yield each family with the table that holds its entries' tables; the family's first field decides."""
    yield WEIGHED, OWN_TABLES
    yield from {choice.family: choice.table for choice in reversed(_choices())}.items()


def _places() -> list[tuple[str, Path]]:
    """Return each family with the tables whose keys may be names of its entries."""
    return [(WEIGHED, WEIGHTS), *_tables()]


def _at(data: Any, path: Path) -> Iterator[Any]:
    """Yield the values at a path in a configuration or its data."""
    if not path:
        yield data
    elif path[0] == EACH:
        inner = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ()
        for entry in inner:
            yield from _at(entry, path[1:])
    elif isinstance(data, BaseModel):
        yield from _at(getattr(data, path[0], None), path[1:])
    elif isinstance(data, Mapping):
        yield from _at(data.get(path[0]), path[1:])


def _chosen(data: Any) -> Iterator[tuple[Choice, str]]:
    """Yield the names of entries that a configuration, or its data, gives, with the fields that choose them."""
    for choice in _choices():
        for name in _at(data, choice.path):
            if isinstance(name, str):
                yield choice, name


def _load(group: str, name: str) -> None:
    """Load a plugin's entry, if a plugin has one of that name."""
    if name in plugins.names(group):
        family(group)[name]


def _asked_for(group: str, name: str) -> list[str]:
    """Return the sources of evidence that an entry needs, by name."""
    needs = family(group)[name].needs if name in family(group).names() else frozenset()
    return sorted(need for need in needs if type(need) is str)


def _is_there(model: type[BaseModel], path: Path) -> bool:
    """Return whether a table has a key, which may be in a table of its own."""
    field = model.model_fields.get(path[0])
    inner = _model_in(field.annotation) if field is not None else None
    return field is not None and (len(path) == 1 or (inner is not None and _is_there(inner, path[1:])))


def _with_table(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return data with a table at a path, empty if missing; a value that is not a table stays, to be refused later."""
    inner = data.get(path[0], {})
    if not isinstance(inner, Mapping) or _is_there(RunConfig, path):
        return dict(data)
    return {**data, path[0]: _with_table(inner, path[1:]) if len(path) > 1 else inner}


Added = tuple[Any, ...]  # the path of a key, then its type and its meaning


@cache
def _extended(added: tuple[Added, ...]) -> type[RunConfig]:
    """Return ``RunConfig`` with more keys."""
    model: type[RunConfig] = _with_keys("RunConfig", RunConfig, added)
    copyreg.pickle(model, _reduced)
    return model


def _with_keys(name: str, base: type[BaseModel], added: Sequence[Added]) -> Any:
    """Return a table with more optional keys, in it or in the tables within it."""
    create: Any = create_model  # its overloads do not know fields that are made at run time
    fields: dict[str, Any] = {}
    for key in dict.fromkeys(row[0] for row in added):
        rows = [row[1:] for row in added if row[0] == key]
        if len(rows[0]) == 2:
            kind, meaning = rows[0]  # or a field of its own
            new_field = Field(None, description=meaning) if isinstance(meaning, str) and meaning else None
            fields[key] = (kind | None, new_field) if isinstance(meaning, str) else (kind, meaning)
            continue
        table = _model_in(base.model_fields[key].annotation) if key in base.model_fields else None
        inner = _with_keys(key.title(), table or Section, rows)
        fields[key] = (inner | None, None) if table is None else (inner, inner())
    return create(base.__name__ if base is not Section else name, __base__=base, __module__=__name__, **fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _revived(table: dict[str, Any]) -> RunConfig:
    """Return a configuration that has reached another process, which first loads the plugins that the sender had."""
    plugins.allow(table["plugins"])
    data = prepared(table)
    return config_model().model_validate(data)


def _reduced(config: RunConfig) -> str | tuple[Any, ...]:
    """Return how a configuration is pickled (``copyreg``): with plugins, as data."""
    if config.plugins or type(config) is not RunConfig:
        return _revived, (config.model_dump(),)
    return config.__reduce_ex__(4)


copyreg.pickle(RunConfig, _reduced)
