"""What a seat sees as an array of numbers, for players that are plain networks."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from games.openspiel.tensors import openspiel_tensor
from games.registry import make_game
from games.spec import Enumerable, Game

MOST_HISTORIES = 20_000  # of a game that is walked for its information states; about two seconds


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

    None for a game of more than ``MOST_HISTORIES``.
    """
    root: Any = make_game(name)
    numbers: dict[tuple[int, str], int] = {}
    counts = [0] * root.spec.seats
    stack, histories = [root.undealt()], 1
    while stack:
        position = stack.pop()
        following = _following(position)
        seat = position.to_act() if following and not position.chance_outcomes() else None
        if seat is not None:
            point = (seat, position.information_state(seat))
            if point not in numbers:
                numbers[point] = counts[seat]
                counts[seat] += 1
        histories += len(following)
        if histories > MOST_HISTORIES:
            return None
        stack += reversed(following)
    return numbers


def _following(position: Any) -> list[Any]:
    """Return copies of a position after each outcome of chance or, if none is next, after each action."""
    outcomes = position.chance_outcomes()
    following = []
    for outcome in [outcome for outcome, _ in outcomes] if outcomes else position.legal_actions():
        after = position.copy()
        (after.apply_chance if outcomes else after.apply)(outcome)
        following.append(after)
    return following
