"""Short texts for OpenSpiel's Sheriff: observations, and labels of moves.

A smuggler hides items and offers bribes, round after round; a sheriff answers each time whether he would
inspect, and only the last answer counts (Farina et al. 2019, arXiv 1905.12564).
"""

from __future__ import annotations

import re
from typing import Any

SMUGGLER, SHERIFF = 0, 1
_VERBS = {"num": "hide", "amount": "bribe"}  # by OpenSpiel's name of a move's number, our name of the move
_ANSWERS = {"0": "pass", "1": "inspect"}


def move_label(state: Any, action: int) -> str:
    """Return "hide 3" or "bribe 2" of the smuggler, "pass" or "inspect" of the sheriff."""
    text = str(state.action_to_string(state.current_player(), action))
    if "will_inspect" in text:
        return "inspect" if text.endswith("=True)") else "pass"
    parameter, number = re.findall(r"\((\w+)=(\d+)\)", text)[0]
    return f"{_VERBS[parameter]} {number}"


def observation(state: Any, seat: int) -> str:
    """Return the items as far as ``seat`` knows them, the round, and all offers and answers in order."""
    hidden, *history = str(state.information_state_string(seat)).split(" ")[1].split("/")
    chosen = len(state.history()) > 0
    items = "hidden" if chosen and seat == SHERIFF else hidden.split(":")[1] if chosen else "not chosen"
    pairs = (move.split(":") for move in history)
    moves = [f"bribe {value}" if kind == "bribe" else _ANSWERS[value] for kind, value in pairs]
    rounds = state.get_game().get_parameters()["num_rounds"]
    current = min(len(moves) // 2 + 1, rounds)
    return f"Items: {items}\nRound: {current} of {rounds}\nMoves: {', '.join(moves) or 'none'}"
