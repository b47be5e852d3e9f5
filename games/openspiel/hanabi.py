"""Short texts for OpenSpiel's Hanabi: observations line by line, and labels of moves.

A seat's own card is written as what it may still be ("RY12": red or yellow, rank 1 or 2); a card of
another seat as what it is and, after a colon, what its holder knows it may be. The moves follow, in their order, with
the card that was played or discarded: from these, and from what is left, a seat can tell all that it saw before.
"""

from __future__ import annotations

import re
from itertools import takewhile
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
    lines.append(f"Discards: {' '.join(sorted(discards.split())) or 'none'}")
    return "\n".join([*lines, f"Moves: {', '.join(moves(state, seat)) or 'none'}"])


def moves(state: Any, seat: int) -> list[str]:
    """Return all moves so far as ``seat`` reads them: "you tell R", "+1 discard 2 G4", "+1 tell you 3"."""
    seats, history = state.num_players(), state.full_history()
    dealt = len(list(takewhile(lambda event: event.player < 0, history)))  # cards, seat after seat
    hands: list[list[str]] = [[] for _ in range(seats)]
    lines, mover = [], 0
    for number, (player, action) in enumerate((event.player, event.action) for event in history):
        words = str(state.action_to_string(player, action)).strip("()")
        if player < 0:  # a card: of the first deal, or in place of the one that the mover gave away
            hands[number * seats // dealt if number < dealt else mover].append(words.split()[1])
            continue
        mover = player
        reveal = _REVEAL.fullmatch(f"({words})")
        if reveal is not None:
            target = f"{_name(player + int(reveal[1]), seat, seats)} " if seats > 2 else ""
            words = f"tell {target}{reveal[2]}"
        else:
            verb, index = words.split()
            words = f"{verb.lower()} {int(index) + 1} {hands[player].pop(int(index))}"
        lines.append(f"{_name(player, seat, seats)} {words}")
    return lines


def _name(player: int, seat: int, seats: int) -> str:
    """Return how ``seat`` calls a player, whose number may be beyond the last."""
    return f"+{distance}" if (distance := (player - seat) % seats) else "you"
