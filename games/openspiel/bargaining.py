"""Short texts and scripted players for OpenSpiel's bargaining: a pool of items that two seats value differently.

Each seat's values add up to 10 over the pool. In turn they say what they would keep, or agree to what the other keeps;
without an agreement both get nothing (Lewis et al. 2017, arXiv 1706.05125).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

ITEMS = {"Book": "book", "Hat": "hat", "Basketball": "ball"}  # by OpenSpiel's name
AGREE = "agree"
WHOLE, HALF = 10, 5  # what the pool is worth to a seat, and half of it


def move_label(state: Any, action: int) -> str:
    """Return "keep 1 book and 2 hats", what the speaker would have of the pool, or "agree"."""
    text = str(state.action_to_string(state.current_player(), action))
    return AGREE if text == "Agree" else f"keep {_items(_amounts(text))}"


def observation(state: Any, seat: int) -> str:
    """Return the pool, what items are worth to the seat, and the offers so far."""
    pool, values, _, *offers = str(state.information_state_string(seat)).strip().splitlines()
    worth = ", ".join(f"{name} {value}" for name, value in _amounts(values).items())
    lines = [f"Pool: {_items(_amounts(pool))}.", f"Worth to you, each: {worth}."]
    for line in offers:
        speaker = int(line[1])
        name = "you" if speaker == seat else "the other"
        lines.append(f"{name}: keep {_items(_amounts(line))}")
    left = _turns_left(state, offers)
    return "\n".join([*lines, f"Turns left: {left}." if left > 1 else "This is the last turn."])


def good(state: Any, rng: random.Random) -> int:
    """Return an action that demands the whole at first and one less with each turn of its own, down to a half.

    It keeps as few items as that takes, and agrees to what leaves it as much; on the last turn of the match, after
    which no offer could be heard, to all that is worth something.
    """
    seat, legal = state.current_player(), state.legal_actions()
    pool, values, _, *offers = str(state.information_state_string(seat)).strip().splitlines()
    most, worth = _amounts(pool), _amounts(values)
    demand = max(WHOLE - len(offers) // 2, HALF)
    if offers:
        kept = _amounts(offers[-1])
        left = sum(worth[name] * (most[name] - kept[name]) for name in most)
        if left >= demand or (_turns_left(state, offers) == 1 and left > 0):
            return int(legal[-1])
    keeps = {
        action: _amounts(str(state.action_to_string(seat, action))) for action in legal[: len(legal) - bool(offers)]
    }
    enough = [a for a, keep in keeps.items() if sum(worth[name] * keep[name] for name in keep) >= demand]
    return int(min(enough, key=lambda action: (sum(keeps[action].values()), rng.random())))


def poor(state: Any, _rng: random.Random) -> int:
    """Return an action that agrees to anything, and at first would keep nothing."""
    legal = state.legal_actions()
    offered = "offers" in str(state.information_state_string(state.current_player()))
    return int(legal[-1] if offered else legal[0])


def _turns_left(state: Any, offers: list[str]) -> int:
    """Return the turns that a match can still have, the next one included."""
    return int(state.get_game().max_game_length()) - len(offers)


def _amounts(text: str) -> dict[str, int]:
    """Return the numbers of a line of OpenSpiel's by our name of the item."""
    return {ITEMS[name]: int(number) for name, number in re.findall(r"(Book|Hat|Basketball): (\d+)", text)}


def _items(amounts: Mapping[str, int]) -> str:
    parts = [f"{number} {name}{'s' if number > 1 else ''}" for name, number in amounts.items() if number]
    return " and ".join(parts) or "nothing"
