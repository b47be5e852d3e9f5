"""A run's settings on the board: by their dotted names, and in the order in which people compare runs by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from league.config import RunConfig

# What people compare runs by comes first, as patterns; what nobody does is never shown unasked.
COMPARED = (
    r"seed",
    r"model\.(source|hidden_size|layers)",
    r"objective\.name",
    r"optimizer\.learning_rate",
    r"credit\.rule",
    r"matchmaking\.(rule|self_play|opponents|group_size)",
    r"objective\..+",
    r"optimizer\..+",
    r"credit\..+",
    r"matchmaking\..+",
    r"iterations",
)
NOT_COMPARED = r"board\.|threads$|episodes_kept$|alarms\.|plugins$"
METRICS = ("exploitability", "mixture_exploitability", "return", "welfare", "score_against_random")  # of each game
COLUMNS = 5  # of settings that HParams shows unasked


def compared_metrics(games: Iterable[str]) -> list[str]:
    """Return the tags of the numbers by which HParams compares runs."""
    return [f"{game}/{name}" for game in games for name in METRICS] + ["rating"]


def rank(name: str) -> tuple[int, str]:
    """Return a setting's place among those by which people compare runs."""
    place = next((n for n, pattern in enumerate(COMPARED) if re.fullmatch(pattern, name)), len(COMPARED))
    return place, name


def compared_settings(config: RunConfig) -> list[str]:
    """Return the settings that HParams shows unasked of one run: what it sets itself, then what people compare."""
    settings = flat_settings(config)
    plain = RunConfig.model_validate(
        {kind: {name: {} for name in getattr(config, kind)} for kind in ("games", "policies")}
    )
    defaults = flat_settings(plain)
    names = sorted((name for name in settings if not re.match(NOT_COMPARED, name)), key=rank)
    known = [name for name in names if rank(name)[0] < len(COMPARED)]
    own = [name for name in names if defaults.get(name) != settings[name]]
    return list(dict.fromkeys(["seed", *(name for name in own if name in known), *own, *known]))[:COLUMNS]


def flat_settings(config: RunConfig) -> dict[str, bool | float | str]:
    """Return a run's settings by their dotted names, as ``--set`` takes them."""
    return dict(flat(config.model_dump()))


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    """Yield the settings of tables within tables by their dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, bool | int | float | str) else str(value)
