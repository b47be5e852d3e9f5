"""The command that reproduces a run, and how the settings of runs differ."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from games.common.errors import UsageError
from league.config import RunConfig
from league.config.load import load, preset_names

MOST_SETTINGS = 40  # of a command; a run further from every preset is reproduced from its own file

Flat = dict[tuple[str, ...], Any]  # settings by their keys; None: not set


def command(config: RunConfig) -> str | None:
    """Return the ``league train`` that gives this configuration, from the preset nearest to it.

    None if settings alone do not give it, or too many would be needed: then its configuration file is the recipe.
    """
    offers = []
    for preset in preset_names():
        settings = _overrides(flat(load(preset)), flat(config))
        if settings is not None and len(settings) <= MOST_SETTINGS:
            offers.append((len(settings), preset, settings))
    for _, preset, settings in sorted(offers):
        try:
            same = load(preset, settings) == config
        except UsageError:
            continue
        if same:
            seed = [setting.removeprefix("seed=") for setting in settings if setting.startswith("seed=")]
            words = ["league", "train", preset, *(["--seed", *seed] if seed else [])]
            words += [word for setting in settings if not setting.startswith("seed=") for word in ("--set", setting)]
            return shlex.join(words)
    return None


def flat(config: RunConfig) -> Flat:
    """Return every setting by its keys."""
    return dict(_flat(config.model_dump(), ()))


def differing(configs: Sequence[RunConfig]) -> dict[str, list[Any]]:
    """Return the settings in which configurations differ, with the value of each; None: not set."""
    settings = [flat(config) for config in configs]
    keys = dict.fromkeys(key for each in settings for key in each)
    rows = {".".join(map(_quoted, key)): [each.get(key) for each in settings] for key in keys}
    return {name: values for name, values in rows.items() if any(value != values[0] for value in values)}


def _flat(data: Mapping[str, Any], above: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    rows = []
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            rows += _flat(value, (*above, key))
        elif value is not None and value != {}:
            rows.append(((*above, key), value))
    return rows


def _overrides(preset: Flat, wanted: Flat) -> list[str] | None:
    """Return the ``--set`` overrides of a preset; None if something in it cannot be unset."""
    if set(preset) - set(wanted):
        return None
    return [
        f"{'.'.join(map(_quoted, key))}={_toml(value)}"
        for key, value in wanted.items()
        if key not in preset or preset[key] != value
    ]


def _quoted(key: str) -> str:
    """Return a key as ``--set`` reads it: quoted where a dot or equal sign would divide it."""
    return f'"{key}"' if any(sign in key for sign in ".= ") and "(" not in key else key


def _toml(value: Any) -> str:
    """Return a value as TOML; plain values and lists look as in JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
