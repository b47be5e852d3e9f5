"""Short texts and scripted players for OpenSpiel's colored trails: chips to cross a board with, and who trades them.

Two proposers offer the responder a trade of chips, unseen by each other; the responder takes one of them or none. Then
everyone goes as near to the goal as its chips allow: a step onto a square costs a chip of its colour. A seat's score is
-25 for each step that is left and 10 for each chip that is left; its return is what the trade adds to that (de Jong et
al. 2011, "Metastrategies in the colored trails game").
"""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

RESPONDER = 2
STEP_LEFT, CHIP_LEFT = -25, 10
PASS, NO_DEAL = "pass", "no deal"


class TrailsBoard(NamedTuple):
    """A board with the chips and places of all seats."""

    rows: tuple[str, ...]  # colours, a letter a square
    chips: tuple[str, ...]  # of each seat, a letter a chip, sorted
    places: tuple[int, ...]  # of each seat; row by row
    goal: int
    proposals: tuple[str, ...]  # such as "ABEEE for C", as far as they are made

    @classmethod
    def read(cls, state: Any) -> TrailsBoard:
        """Return what OpenSpiel's text of a state says."""
        text = str(state)
        places = [int(number) for number in re.findall(r"Pos: ([\d ]+)", text)[0].split()]
        return cls(
            tuple(re.findall(r"^[A-Z]+$", text, re.MULTILINE)),
            tuple(re.findall(r"chips: ([A-Z]*)", text)),
            tuple(places[:-1]),
            places[-1],
            tuple(re.findall(r"Proposal \d: (.*)", text)),
        )

    def score(self, seat: int, chips: str) -> int:
        """Return the best that a seat can score with chips."""
        return _best("".join(self.rows), len(self.rows), self.places[seat], self.goal, "".join(sorted(chips)))

    def gains(self, proposer: int, trade: str) -> tuple[int, int]:
        """Return what a trade adds to the scores of its proposer and of the responder."""
        give, _, get = trade.partition(" for ")
        mine, theirs = self.chips[proposer], self.chips[RESPONDER]
        after = (_less(mine, give) + get, _less(theirs, get) + give)
        return (
            self.score(proposer, after[0]) - self.score(proposer, mine),
            self.score(RESPONDER, after[1]) - self.score(RESPONDER, theirs),
        )


def move_label(state: Any, action: int) -> str:
    """Return "give A and 2 B for C" or "pass" of a proposer; "take 1", "take 2" or "no deal" of the responder."""
    text = str(state.action_to_string(state.current_player(), action))
    if text.startswith("Proposer"):
        return _offer(text.partition(": ")[2])
    return f"take {int(text[-1]) + 1}" if text.startswith("Deal") else NO_DEAL


def observation(state: Any, seat: int) -> str:
    """Return the board, the places, the chips that the seat knows, and to the responder the proposals."""
    board = TrailsBoard.read(state)
    width = len(board.rows)
    lines = [" ".join(row) for row in board.rows]
    known = {0: "first proposer", 1: "second proposer", RESPONDER: "responder"}
    places = [f"{'you' if other == seat else known[other]} {_square(board.places[other], width)}" for other in known]
    lines.append(f"Places: {', '.join(places)}; goal {_square(board.goal, width)}.")
    seen = (seat, RESPONDER) if seat != RESPONDER else (RESPONDER, 0, 1)
    chips = [f"{'you' if other == seat else known[other]} {_chips(board.chips[other])}" for other in seen]
    lines.append(f"Chips: {'; '.join(chips)}.")
    if seat == RESPONDER and len(board.proposals) == 2:
        lines += [f"{known[number].capitalize()}: {_offer(trade)}" for number, trade in enumerate(board.proposals)]
    return "\n".join(lines)


def good(state: Any, rng: random.Random) -> int:
    """Return, of the trades that gain both, one that gains the proposer most; of the responder, what gains it most."""
    seat, legal, board = state.current_player(), state.legal_actions(), TrailsBoard.read(state)
    if seat == RESPONDER:
        offered = [
            0 if trade.startswith("Pass") else board.gains(n, trade)[1] for n, trade in enumerate(board.proposals)
        ]
        best = max(range(2), key=lambda number: offered[number])
        return int(legal[best] if offered[best] > 0 else legal[-1])
    trades = {action: str(state.action_to_string(seat, action)).partition(": ")[2] for action in legal[:-1]}
    gains = {action: board.gains(seat, trade) for action, trade in trades.items()}
    both = [action for action, (mine, theirs) in gains.items() if mine > 0 and theirs > 0]
    return int(max(both, key=lambda action: (*gains[action], rng.random())) if both else legal[-1])


def poor(state: Any, _rng: random.Random) -> int:
    """Return the first action, regardless of its value."""
    return int(state.legal_actions()[0])


@lru_cache(maxsize=100_000)
def _best(squares: str, width: int, place: int, goal: int, chips: str) -> int:
    """Return the best score from a place with chips: here, or after a step onto a square whose colour is among them."""
    row, column = divmod(place, width)
    left = abs(row - goal // width) + abs(column - goal % width)
    score = STEP_LEFT * left + CHIP_LEFT * len(chips)
    if not left:
        return score
    for to_row, to_column in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        to = to_row * width + to_column
        if 0 <= to_row < width and 0 <= to_column < width and squares[to] in chips:
            score = max(score, _best(squares, width, to, goal, _less(chips, squares[to])))
    return score


def _less(chips: str, given: str) -> str:
    return "".join(sorted((Counter(chips) - Counter(given)).elements()))


def _offer(trade: str) -> str:
    give, _, get = trade.partition(" for ")
    return f"give {_chips(give)} for {_chips(get)}" if get else PASS


def _chips(chips: str) -> str:
    parts = [f"{count} {colour}" for colour, count in sorted(Counter(chips).items())]
    return " and ".join(parts) or "none"


def _square(place: int, width: int) -> str:
    return f"row {place // width + 1} column {place % width + 1}"
