"""PettingZoo's observations and actions in words, and what is known of its classic games.

An environment has other words if it gives them: ``text`` in a Dict observation is what a seat reads, and
``action_names`` in its info, by id, are its actions; the environments of ``games.pettingzoo`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from games.outside.facts import Facts
from games.spec import Utility


class Words(NamedTuple):
    """How one environment speaks."""

    observation: Callable[[Any, int], str]  # of an observation without its mask, and a seat
    action: Callable[[int], str]  # of an action's number, counted from 0


def plain_words(observation: Any, _seat: int) -> str:
    """Return an observation as text: a row of numbers a line, arrays of more dimensions plane by plane."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        parts = {key: value for key, value in observation.items() if key != "action_mask"}
        if isinstance(parts.get("text"), str):
            return str(parts["text"])
        return "\n".join(f"{key}: {plain_words(value, _seat)}" for key, value in parts.items())
    if isinstance(observation, tuple | list):
        return "\n".join(plain_words(part, _seat) for part in observation)
    array = np.asarray(observation)
    if array.ndim <= 1:
        return " ".join(map(_number, array.reshape(-1)))
    if array.ndim == 2:
        return "\n".join(" ".join(map(_number, row)) for row in array)
    planes = np.moveaxis(array, -1, 0)  # channels last, as PettingZoo's boards are
    return "\n".join(f"plane {index + 1}:\n{plain_words(plane, _seat)}" for index, plane in enumerate(planes))


def _number(value: Any) -> str:
    return f"{float(value):g}"


PLAIN = Words(plain_words, str)
_MARKS = "XO"


def _board(observation: Any, seat: int, empty: Callable[[int], str]) -> str:
    """Return a board of two planes, the own marks and the other's, with X for the first seat."""
    planes = np.asarray(observation["observation"])  # [rows, columns, 2]
    own, other = _MARKS[seat], _MARKS[1 - seat]
    cells = [
        own if mine else other if theirs else empty(index)
        for index, (mine, theirs) in enumerate(planes.reshape(-1, 2).tolist())
    ]
    width = planes.shape[1]
    return "\n".join(" ".join(cells[start : start + width]) for start in range(0, len(cells), width))


def _one_more(index: int) -> str:
    return str(index + 1)


def _four_in_a_row(observation: Any, seat: int) -> str:
    return "1 2 3 4 5 6 7\n" + _board(observation, seat, lambda _: ".")


def _tic_tac_toe(observation: Any, seat: int) -> str:
    return _board(observation, seat, _one_more)


def _last_hand(observation: Any, _seat: int) -> str:
    hand = int(observation)
    return f"The other's last hand: {_HANDS[hand]}." if hand < len(_HANDS) else "Nobody has shown a hand yet."


_HANDS = ("rock", "paper", "scissors")
_BETS = ("call", "raise", "fold", "check")


def _leduc(observation: Any, _seat: int) -> str:
    """Return RLCard's 36 numbers of Leduc hold'em: the own card, the public one, chips of either by count."""
    numbers = np.asarray(observation["observation"])
    own, public, mine, theirs = numbers[:3], numbers[3:6], numbers[6:21], numbers[21:36]
    shown = "JQK"[int(public.argmax())] if public.any() else "hidden"
    chips = f"{int(mine.argmax())}, the other {int(theirs.argmax())}"
    return f"Your card: {'JQK'[int(own.argmax())]}. The public card: {shown}.\nChips in the pot: you {chips}."


class Known(NamedTuple):
    """An environment of PettingZoo's that has words of its own."""

    words: Words
    facts: Facts


_ZERO_SUM = Facts(motive=Utility.ZERO_SUM)
KNOWN: dict[str, Known] = {  # by module
    "pettingzoo.classic.tictactoe_v3": Known(
        Words(_tic_tac_toe, _one_more), _ZERO_SUM._replace(longest=9, perfect=True)
    ),
    "pettingzoo.classic.connect_four_v3": Known(
        Words(_four_in_a_row, _one_more), _ZERO_SUM._replace(longest=42, perfect=True)
    ),
    "pettingzoo.classic.rps_v2": Known(
        Words(_last_hand, _HANDS.__getitem__), _ZERO_SUM._replace(least=-15, most=15, longest=30)
    ),
    "pettingzoo.classic.leduc_holdem_v4": Known(
        Words(_leduc, _BETS.__getitem__), _ZERO_SUM._replace(least=-7, most=7, longest=16)
    ),
}
