"""Short texts for OpenSpiel's Hanabi: observations line by line, and labels of moves.

A seat's own card is written as what it may still be ("RY12": red or yellow, rank 1 or 2); a card of
another seat as what it is and, after a colon, what its holder knows it may be.
"""

from __future__ import annotations

import re
from typing import Any

_CARD = re.compile(r"(\w\w) \|\| \w\w\|(\w+)")  # identity (XX: hidden) || hints | what it may be
_REVEAL = re.compile(r"\(Reveal player \+(\d+) (?:color|rank) (\w)\)")


def move_label(state: Any, action: int) -> str:
    """Return "play 1", "discard 2", "tell R" or "tell 1"; with more than two seats with the target, "tell +2 R"."""
    words = str(state.action_to_string(state.current_player(), action))
    reveal = _REVEAL.fullmatch(words)
    if reveal is None:
        verb, index = words.strip("()").split()
        return f"{verb.lower()} {int(index) + 1}"
    offset, hint = reveal.groups()
    return f"tell {hint}" if state.num_players() == 2 else f"tell +{offset} {hint}"


def observation(state: Any, seat: int) -> str:
    """Return a seat's observation, its own cards as what they may be."""
    facts, hands = str(state.observation_string(seat)).split("Hands:\n")
    hands, rest = hands.split("Deck size: ")
    deck, discards = rest.split("Discards:")
    lives, tokens, fireworks = (line.split(": ")[1].strip() for line in facts.strip().split("\n"))
    lines = [f"Fireworks: {fireworks}", f"Tells: {tokens}  Lives: {lives}  Deck: {deck.strip()}"]
    for number, hand in enumerate(hands.replace("Cur player\n", "").split("-----\n")):
        cards = _CARD.findall(hand)
        shown = " ".join(possible if card == "XX" else f"{card}:{possible}" for card, possible in cards)
        lines.append(f"{'You' if number == 0 else f'+{number}'}: {shown}")
    return "\n".join([*lines, f"Discards: {' '.join(sorted(discards.split())) or 'none'}"])
