r"""Slots of role cards, and the rules that fill them: contexts that are rewritten, texts written for a later prompt.

May import roles.slots alone of its package.

A card whose prompt has ``{earlier}``, ``{notes}``, ``{hint}`` or ``{plan}`` says who fills it::

    prompt = "{earlier}\n{observation}\nLegal: {legal}"
    slots = {earlier = {rule = "window", entries = 4}}

What a seat is shown, slots filled, is the observation of its turn: engines, replays and the learner see exactly that.
"""

from __future__ import annotations

from typing import Any

from games.common.registry import Registry
from games.common.section import Section
from games.common.validation import validated
from games.spec import Game
from roles.slots.hint import RULE as HINT
from roles.slots.notes import RULE as NOTES
from roles.slots.plan import RULE as PLAN
from roles.slots.prediction import RULE as PREDICTION
from roles.slots.reflection import RULE as REFLECTION
from roles.slots.rule import NAMES, Filling, Sight, SlotRule, filled, past_of, without_past
from roles.slots.summary import RULE as SUMMARY
from roles.slots.window import RULE as WINDOW

RULES: Registry[SlotRule] = Registry(
    "slots",
    "rule for slots",
    SlotRule,
    "slots",
    {
        "window": WINDOW,
        "summary": SUMMARY,
        "notes": NOTES,
        "reflection": REFLECTION,
        "plan": PLAN,
        "prediction": PREDICTION,
        "hint": HINT,
    },
    reserved=("rule",),
)
register = RULES.register


def filling(slot: str, table: Any) -> Filling:
    """Return how a table of a card fills a slot. Raises ValueError, or UsageError for an unknown rule or setting."""
    if slot not in NAMES:
        raise ValueError(f"there is no slot {slot!r}; a card has the slots {', '.join(NAMES)}.")
    if not isinstance(table, dict) or not isinstance(table.get("rule"), str):
        raise ValueError(f'{slot} is filled by {table!r}; write {slot} = {{rule = "window"}}, or another rule.')
    settings = {key: value for key, value in table.items() if key != "rule"}
    section: type[Section] = RULES[table["rule"]].settings
    return Filling(slot, table["rule"], validated(section, settings, f"The rule {table['rule']} of the slot {slot}"))


def shown(prompt: str, fillings: tuple[Filling, ...], game: Game, seat: int, sights: dict[str, Sight]) -> str:
    """Return what a seat is shown: its observation with its slots filled by their rules."""
    past = max((sight.past for sight in sights.values()), key=len, default=())
    texts = {one.slot: RULES[one.rule].make(sights[one.slot], one.settings) for one in fillings}
    return filled(prompt, without_past(game.observe(seat), past), texts)


def prediction_slots(fillings: tuple[Filling, ...]) -> frozenset[str]:
    """Return the slots that hold predictions of another player's act."""
    return frozenset(one.slot for one in fillings if RULES[one.rule] is PREDICTION)


def written_slots(fillings: tuple[Filling, ...]) -> list[str]:
    """Return the slots whose texts are written in each match, so that a position does not determine what is seen."""
    return [one.slot for one in fillings if RULES[one.rule].asks]


def sight_past(one: Filling, game: Game, seat: int) -> tuple[str, ...]:
    """Return what a seat was shown of earlier, if the rule of a slot reads it; else ()."""
    return past_of(game, seat) if RULES[one.rule].reads_past else ()


def plain_view(prompt: str, fillings: tuple[Filling, ...], game: Game, seat: int) -> str:
    """Return what a seat is shown where nothing was written or given."""
    sights = {one.slot: Sight(game, seat, sight_past(one, game, seat)) for one in fillings}
    return shown(prompt, fillings, game, seat, sights)
