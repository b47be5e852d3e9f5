"""What a seat sees as an array of numbers, for players that are plain networks."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from games.common.errors import NotEnumerable
from games.enumerated import native_points
from games.openspiel.tensors import openspiel_tensor
from games.spec import Enumerable, Game

MOST_STATES = 1_000  # information states of a game that is enumerated for them


class SeatTensor(Protocol):
    """The array of what a seat of one match sees."""

    shape: tuple[int, ...]

    def values(self, seat: int) -> NDArray[np.float32]:
        """Return the array of ``seat`` in the match's current position."""  # self.shape
        ...


class InformationStateTensor:
    """The number of a seat's information state, one-hot; zeros where the seat has nothing to decide."""

    def __init__(self, game: Game, numbers: dict[tuple[int, str], int]) -> None:
        self._game, self._numbers = game, numbers
        self.shape: tuple[int, ...] = (max(numbers.values()) + 1,)

    def values(self, seat: int) -> NDArray[np.float32]:
        """Return the array of ``seat`` in the match's current position."""  # self.shape
        array = np.zeros(self.shape, dtype=np.float32)
        number = self._numbers.get((seat, self._game.information_state(seat)))
        if number is not None:
            array[number] = 1.0
        return array


def seat_tensor(game: Game) -> SeatTensor | None:
    """Return OpenSpiel's tensor or, of a small game that gives its chance as data, one; None for any other game."""
    if isinstance(game, Enumerable) and not game.spec.free_text:
        numbers = _information_states(game.spec.name)
        return None if numbers is None else InformationStateTensor(game, numbers)
    return openspiel_tensor(game)


@cache
def _information_states(name: str) -> dict[tuple[int, str], int] | None:
    """Return the number of each (seat, information state) in which a seat decides, from 0 for each seat.

    None for a game that is too large to be enumerated.
    """
    try:
        points = native_points(name, MOST_STATES)
    except NotEnumerable:
        return None
    counts: Counter[int] = Counter()
    numbers = {}
    for seat, state in points:
        numbers[seat, state] = counts[seat]
        counts[seat] += 1
    return numbers
