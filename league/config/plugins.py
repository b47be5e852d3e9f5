"""A run's configuration where plugins add to it: tables of credit rules, estimators, engines; weights of matchmaking.

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
from learners.advantages.rule import Need
from learners.values import ESTIMATORS

_WORD = re.compile(r"[A-Za-z_][\w.:]*")


def prepared(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a configuration after the plugins that it names, or uses, are loaded.

    A credit rule or estimator of theirs that is used gets its table, so that the run keeps its settings. Raises
    UsageError for a plugin that is missing, or that the person did not choose (``games.common.plugins``).
    """
    table = dict(data)
    wanted = table.get("plugins", ())
    if isinstance(wanted, list | tuple) and all(isinstance(name, str) for name in wanted):
        plugins.require(wanted)
    credit, values, engine, matchmaking = (table.get(key) for key in ("credit", "values", "engine", "matchmaking"))
    sections = (("credit", credit), ("estimators", values), ("engines", engine), ("matchmaking", matchmaking))
    for group, section in sections:
        for name in section if isinstance(section, Mapping) else ():
            plugins.lookup(group, name)
    if isinstance(engine, Mapping) and isinstance(kind := engine.get("kind"), str):
        plugins.lookup("engines", kind)
    for key, section, names, own in (
        ("credit", credit, ("rule", "rules"), RULES),
        ("values", values, ("estimator", "estimators"), ESTIMATORS),
    ):
        if isinstance(section, Mapping):
            made = {name: plugins.lookup(own.family, name) for name in _named(section, *names) if name not in own}
            added: dict[str, Any] = {name: {} for name, entry in made.items() if entry and entry.settings.model_fields}
            table[key] = added | dict(section)
    return table


def config_model() -> type[RunConfig]:
    """Return the class of configurations with the keys of all plugins that are loaded."""
    groups = ("credit", "estimators", "engines", "matchmaking")
    added = tuple(tuple(plugins.loaded(group).items()) for group in groups)
    return _extended(*added) if any(added) else RunConfig


def used_plugins(config: RunConfig) -> list[str]:
    """Return the plugins whose games, role cards, rules, players or engine a run uses, sorted."""
    players = [*config.evaluation.anchors, *config.matchmaking.guests, *config.cold_start.players]
    players += [*config.roles.player.values(), config.teacher.player, *config.teacher.players.values()]
    games = [word for name in with_submatches(config.games) for word in _WORD.findall(name)]  # a wrapper's game too
    rules = _named(dict(config.credit), "rule", "rules")
    estimators = _named(dict(config.values), "estimator", "estimators")
    used = {
        "games": games,
        "environments": [name.removeprefix("pettingzoo:") for name in games if name.startswith("pettingzoo:")],
        "roles": games,
        "credit": [rule for rule in rules if rule not in RULES],
        "estimators": [name for name in estimators if name not in ESTIMATORS],
        "evidence": [need for rule in rules for need in RULES[rule].needs - set(Need)],
        "privileged": [*config.critic.sees, *config.teacher.sees],
        "matchmaking": [rule for rule in plugins.loaded("matchmaking") if config.matchmaking.shares[rule]],
        "scripted": [name.partition(":")[0] for name in players],
        "engines": [config.engine.kind],
    }
    found = {plugins.plugin_of(group, name) for group, entries in used.items() for name in entries}
    found |= {plugins.chosen_for(name) for name in used["environments"]}
    return sorted(name for name in found if name is not None)


def _named(table: Mapping[str, Any], for_all: str, by_role: str) -> list[str]:
    """Return the entries that two keys of a table name; of what is no name it says nothing."""
    single = table.get(by_role)
    names = [table.get(for_all), *(single.values() if isinstance(single, Mapping) else ())]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


Entries = tuple[tuple[str, Any], ...]  # names and what is registered under them


@cache
def _extended(rules: Entries, estimators: Entries, engines: Entries, matchmakers: Entries) -> type[RunConfig]:
    """Return ``RunConfig`` with the keys of plugins."""
    tables = dict(_tables(rules)), dict(_tables(estimators)), dict(_tables(engines)), dict(_weights(matchmakers))
    fields = {}
    for name, added in zip(("credit", "values", "engine", "matchmaking"), tables, strict=True):
        base: Any = RunConfig.model_fields[name].annotation
        new = {key: field for key, field in added.items() if key not in base.model_fields}
        section = create_model(base.__name__, __base__=base, __module__=__name__, **new)
        fields[name] = (section, section())
    create: Any = create_model  # whose overloads know no fields that are made at run time
    model: type[RunConfig] = create("RunConfig", __base__=RunConfig, __module__=__name__, **fields)
    copyreg.pickle(model, _reduced)
    return model


def _tables(entries: Entries) -> Iterator[tuple[str, Any]]:
    """Yield the optional table of each rule, estimator or engine that has settings."""
    for name, entry in entries:
        if entry.settings is not None and entry.settings.model_fields:
            yield name, (entry.settings | None, None)


def _weights(entries: Entries) -> Iterator[tuple[str, Any]]:
    """Yield the weight of each matchmaking rule."""
    for name, rule in entries:
        meaning = rule.sentence or f"the plugin's rule {name}"
        yield name, (NonNegative | None, Field(None, description=f"weight of: {meaning}"))


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
