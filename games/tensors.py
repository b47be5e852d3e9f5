"""What a seat sees, as numbers: OpenSpiel's tensors, for players that are plain networks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from games.openspiel import OpenSpielGame
from games.spec import Game


class SeatTensor:
    """OpenSpiel's numbers for what a seat sees; the information state before the observation."""

    def __init__(self, game: OpenSpielGame) -> None:
        self._game = game
        rules = game.pyspiel_game
        self._remembers = rules.get_type().provides_information_state_tensor
        shape = rules.information_state_tensor_shape() if self._remembers else rules.observation_tensor_shape()
        self.shape = tuple(shape)

    def values(self, seat: int) -> NDArray[np.float32]:
        """Return the tensor of ``seat`` in the game's present position."""  # self.shape
        state = self._game.pyspiel_state()
        numbers = state.information_state_tensor(seat) if self._remembers else state.observation_tensor(seat)
        return np.asarray(numbers, dtype=np.float32).reshape(self.shape)


def tensor_of(game: Game) -> SeatTensor | None:
    """Return the tensor of an OpenSpiel game that has one."""
    if not isinstance(game, OpenSpielGame):
        return None
    kind = game.pyspiel_game.get_type()
    has_one = kind.provides_information_state_tensor or kind.provides_observation_tensor
    return SeatTensor(game) if has_one else None
