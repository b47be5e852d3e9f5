"""Settings of older versions: what a stored run means by one, and what to write instead. A run keeps every setting in
its ``config.toml``, including those that nobody set. So a stored configuration has keys that no longer exist. A key
with the value that is fixed today changes nothing and is left out, and so is every limit of an alarm, which only
watched. Any other key is refused, as in any other configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from games.common.errors import UsageError


class Former(NamedTuple):
    """A setting that is gone."""

    value: Any  # that is fixed today; None where a key without a value stood for it
    instead: str  # what to write


_LIMIT = "Each alarm has its own limit, and alarms.sensitivity (1) scales them all: at 2 they ring at half the limit."
_EPO = "objective.epo keeps entropy between 0.8 and 1.2 of its running mean, of which an update keeps 0.9."
_PFSP = "PFSP weights players by (1 - x)^2, where x is how often the learner wins."
_KTO = "Good and bad matches have equal weight; a plugin's loss (league show docs rules_and_losses) may weight them."
FORMER: Mapping[str, Former] = {
    "alarms.reasoning": Former(0.25, _LIMIT),
    "alarms.repetition": Former(0.5, _LIMIT),
    "alarms.variance": Former(0.5, _LIMIT),
    "alarms.drift": Former(0.3, _LIMIT),
    "alarms.entropy_low": Former(0.02, _LIMIT),
    "alarms.entropy_high": Former(None, _LIMIT),
    "alarms.language": Former(0.5, _LIMIT),
    "alarms.cold_start": Former(0.2, _LIMIT),
    "alarms.collapse": Former(0.98, _LIMIT),
    "alarms.signal": Former(0.05, _LIMIT),
    "alarms.cycle": Former(0.05, _LIMIT),
    "alarms.illegal": Former(0.5, _LIMIT),
    "alarms.mismatch": Former(0.2, _LIMIT),
    "alarms.hack": Former(0.02, _LIMIT),
    "alarms.illegal_stop": Former(
        0.95,
        "A run stops at the alarms that alarms.stop names: silent, the default, rings where more than 95 % of a role's "
        "replies are illegal in three iterations. For a run that never stops write alarms.stop = [].",
    ),
    "objective.epo_low": Former(0.8, _EPO),
    "objective.epo_high": Former(1.2, _EPO),
    "objective.epo_decay": Former(0.9, _EPO),
    "objective.kto_desirable": Former(1.0, _KTO),
    "objective.kto_undesirable": Former(1.0, _KTO),
    "prediction.most_tokens": Former(128, "Of one text 128 tokens are predicted."),
    "distil.prompts": Former(256, "A step of distilling takes 256 situations."),
    "descent.density": Former(0.2, "TIES-Merging keeps a fifth of each parent's changes, as its paper does."),
    "descent.noise": Former(0.1, "A crossing varies by 0.1; a plugin's rule (league show docs families) may do more."),
    "matchmaking.beaten": Former(0.3, "AlphaStar's exploiters are met again below a win rate of 0.3."),
    "matchmaking.forgotten": Former(0.7, "AlphaStar's past mains are met again below a win rate of 0.7."),
    "matchmaking.pfsp_weighting": Former("hard", _PFSP),
    "matchmaking.pfsp_power": Former(2.0, _PFSP),
}


def from_stored(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration's data in today's keys, meaning the same. Keys that would change the meaning
    stay.
    """
    table = dict(data)
    alarms = table.get("alarms")
    if isinstance(alarms, Mapping) and "illegal_stop" in alarms:
        stop = [*alarms.get("stop", ()), *(["silent"] if alarms["illegal_stop"] < 1.0 else [])]
        table["alarms"] = {**alarms, "stop": stop}
    if isinstance(curriculum := table.get("curriculum"), Mapping):
        table["curriculum"] = {"kept": 0.0, **curriculum}  # until this was a setting, games that were not drawn rested
    for key, former in FORMER.items():
        section, name = key.split(".")
        own = table.get(section)
        if isinstance(own, Mapping) and name in own and (key.startswith("alarms.") or own[name] == former.value):
            table[section] = {other: value for other, value in own.items() if other != name}
    return table


def refuse_former(data: Mapping[str, Any]) -> None:
    """Raise UsageError for a removed setting, with what to write instead."""
    for key, former in FORMER.items():
        section, name = key.split(".")
        if isinstance(own := data.get(section), Mapping) and name in own:
            raise UsageError(f"{key} = {own[name]} is no longer a setting. {former.instead}")
