"""Observations as arrays of numbers, for players that are plain networks."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from games.common.errors import NotEnumerable
from games.enumerated import native_points
from games.openspiel.game import OpenSpielGame
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


class OpenSpielTensor:
    """OpenSpiel's information-state tensor of a seat or, where a game has none, its observation tensor."""

    def __init__(self, game: OpenSpielGame) -> None:
        self._game = game
        rules = game.pyspiel_game
        self._has_state = rules.get_type().provides_information_state_tensor
        shape = rules.information_state_tensor_shape() if self._has_state else rules.observation_tensor_shape()
        self.shape = tuple(shape)

    def values(self, seat: int) -> NDArray[np.float32]:
        """Return the tensor of ``seat`` in the game's current position."""  # self.shape
        state = self._game.pyspiel_state()
        numbers = state.information_state_tensor(seat) if self._has_state else state.observation_tensor(seat)
        return np.asarray(numbers, dtype=np.float32).reshape(self.shape)


def openspiel_tensor(game: Game) -> OpenSpielTensor | None:
    """Return the tensor of an OpenSpiel game that has one; None for any other game."""
    if not isinstance(game, OpenSpielGame):
        return None
    game_type = game.pyspiel_game.get_type()
    has_tensor = game_type.provides_information_state_tensor or game_type.provides_observation_tensor
    return OpenSpielTensor(game) if has_tensor else None
