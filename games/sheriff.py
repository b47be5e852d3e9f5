"""OpenSpiel's Sheriff in words: what a seat sees, and names for its moves.

A smuggler hides items and offers bribes, round after round; a sheriff says each time whether he would
inspect, and only the last time counts (Farina et al. 2019, arXiv 1905.12564).
"""

from __future__ import annotations

import re
from typing import Any

SMUGGLER, SHERIFF = 0, 1
_WORDS = {"num": "hide", "amount": "bribe"}  # how OpenSpiel names a move's number, and we the move
_SHERIFF_SAYS = {"0": "pass", "1": "inspect"}


def move_label(state: Any, action: int) -> str:
    """Return "hide 3" or "bribe 2" of the smuggler, "pass" or "inspect" of the sheriff."""
    words = str(state.action_to_string(state.current_player(), action))
    if "will_inspect" in words:
        return "inspect" if words.endswith("=True)") else "pass"
    kind, number = re.findall(r"\((\w+)=(\d+)\)", words)[0]
    return f"{_WORDS[kind]} {number}"


def observation(state: Any, seat: int) -> str:
    """Return the items as far as ``seat`` knows them, the round, and all offers and answers in turn."""
    hidden, *said = str(state.information_state_string(seat)).split(" ")[1].split("/")
    chosen = len(state.history()) > 0
    items = "hidden" if chosen and seat == SHERIFF else hidden.split(":")[1] if chosen else "not chosen"
    moves = [f"bribe {what}" if kind == "bribe" else _SHERIFF_SAYS[what] for kind, what in (m.split(":") for m in said)]
    rounds = state.get_game().get_parameters()["num_rounds"]
    now = min(len(moves) // 2 + 1, rounds)
    return f"Items: {items}\nRound: {now} of {rounds}\nMoves: {', '.join(moves) or 'none'}"
