"""OpenSpiel's observation tensors, for players that are plain networks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from games.openspiel.game import OpenSpielGame
from games.spec import Game


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
