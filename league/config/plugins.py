"""A run's configuration where plugins add to it: tables of credit rules and engines, weights of matchmaking rules,
settings of alarms.

The configuration of a run is a ``RunConfig``; with plugins, of a class derived from it that has their keys too, so that
they are checked, described and offered in messages like all others. A key of a plugin is left out of a run's TOML where
the run does not use it: such a run does not need the plugin.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import Field, create_model

from games.common import plugins
from games.common.section import NonNegative
from games.registry import with_submatches
from league.config.run import RunConfig
from learners.advantages import RULES

_WORD = re.compile(r"[A-Za-z_][\w.:]*")


def prepared(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a configuration after the plugins that it names, or uses, are loaded.

    A credit rule of theirs that is used gets its table, so that the run keeps its settings. Raises UsageError for a
    plugin that is missing, or that the person did not choose (``games.common.plugins``).
    """
    table = dict(data)
    wanted = table.get("plugins", ())
    if isinstance(wanted, list | tuple) and all(isinstance(name, str) for name in wanted):
        plugins.require(wanted)
    credit, engine, matchmaking = (table.get(key) for key in ("credit", "engine", "matchmaking"))
    for group, section in (("credit", credit), ("engines", engine), ("matchmaking", matchmaking)):
        for name in section if isinstance(section, Mapping) else ():
            plugins.lookup(group, name)
    if isinstance(engine, Mapping) and isinstance(kind := engine.get("kind"), str):
        plugins.lookup("engines", kind)
    if isinstance(credit, Mapping):
        made = {rule: plugins.lookup("credit", rule) for rule in _rules(credit) if rule not in RULES}
        table["credit"] = {rule: {} for rule, own in made.items() if own and own.settings.model_fields} | dict(credit)
    return table


def config_model() -> type[RunConfig]:
    """Return the class of configurations with the keys of all plugins that are loaded."""
    added = tuple(tuple(plugins.loaded(group).items()) for group in ("credit", "engines", "matchmaking", "alarms"))
    return _extended(*added) if any(added) else RunConfig


def used_plugins(config: RunConfig) -> list[str]:
    """Return the plugins whose games, role cards, rules, players or engine a run uses, sorted."""
    players = [*config.evaluation.anchors, *config.matchmaking.guests, *config.cold_start.players]
    players += [*config.roles.player.values(), config.teacher.player, *config.teacher.players.values()]
    games = [word for name in with_submatches(config.games) for word in _WORD.findall(name)]  # a wrapper's game too
    used = {
        "games": games,
        "environments": [name.removeprefix("pettingzoo:") for name in games if name.startswith("pettingzoo:")],
        "roles": games,
        "credit": [rule for rule in _rules(dict(config.credit)) if rule not in RULES],
        "matchmaking": [rule for rule in plugins.loaded("matchmaking") if config.matchmaking.shares[rule]],
        "scripted": [name.partition(":")[0] for name in players],
        "engines": [config.engine.kind],
        "loggers": config.board.loggers,
        **{group: plugins.loaded(group) for group in ("monitors", "figures", "alarms")},  # nothing chooses these
    }
    found = {plugins.plugin_of(group, name) for group, entries in used.items() for name in entries}
    found |= {plugins.chosen_for(name) for name in used["environments"]}
    return sorted(name for name in found if name is not None)


def _rules(credit: Mapping[str, Any]) -> list[str]:
    """Return the credit rules that the table ``[credit]`` names; of what is no name it says nothing."""
    by_role = credit.get("rules")
    rules = [credit.get("rule"), *(by_role.values() if isinstance(by_role, Mapping) else ())]
    return list(dict.fromkeys(rule for rule in rules if isinstance(rule, str)))


Entries = tuple[tuple[str, Any], ...]  # names and what is registered under them


@cache
def _extended(rules: Entries, engines: Entries, matchmakers: Entries, alarms: Entries) -> type[RunConfig]:
    """Return ``RunConfig`` with the keys of plugins."""
    tables = dict(_tables(rules)), dict(_tables(engines)), dict(_weights(matchmakers)), dict(_settings(alarms))
    fields = {}
    for name, added in zip(("credit", "engine", "matchmaking", "alarms"), tables, strict=True):
        base: Any = RunConfig.model_fields[name].annotation
        new = {key: field for key, field in added.items() if key not in base.model_fields}
        section = create_model(base.__name__, __base__=base, __module__=__name__, **new)
        fields[name] = (section, section())
    create: Any = create_model  # whose overloads know no fields that are made at run time
    model: type[RunConfig] = create("RunConfig", __base__=RunConfig, __module__=__name__, **fields)
    copyreg.pickle(model, _reduced)
    return model


def _tables(entries: Entries) -> Iterator[tuple[str, Any]]:
    """Yield the optional table of each rule or engine that has settings."""
    for name, entry in entries:
        if entry.settings is not None and entry.settings.model_fields:
            yield name, (entry.settings | None, None)


def _weights(entries: Entries) -> Iterator[tuple[str, Any]]:
    """Yield the weight of each matchmaking rule."""
    for name, rule in entries:
        meaning = rule.sentence or f"the plugin's rule {name}"
        yield name, (NonNegative | None, Field(None, description=f"weight of: {meaning}"))


def _settings(entries: Entries) -> Iterator[tuple[str, Any]]:
    """Yield the settings of each alarm, which are fields of the table itself."""
    for _, rule in entries:
        for name, field in rule.settings.model_fields.items():
            yield name, (field.annotation, field)


def _revived(table: dict[str, Any]) -> RunConfig:
    """Return a configuration that has reached another process, which loads its plugins first, as the sender had."""
    plugins.allow(table["plugins"])
    data = prepared(table)
    return config_model().model_validate(data)


def _reduced(config: RunConfig) -> str | tuple[Any, ...]:
    """Return how a configuration is pickled (``copyreg``): one with plugins as data, which is valid where they are."""
    if config.plugins or type(config) is not RunConfig:
        return _revived, (config.model_dump(),)
    return config.__reduce_ex__(4)


copyreg.pickle(RunConfig, _reduced)
