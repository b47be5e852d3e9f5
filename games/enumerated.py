"""Walks this project's games whose chance is data in the same way as OpenSpiel's games.

``EnumeratedState`` has the methods of ``pyspiel.State`` that walks and exact measures use, so that they read one kind
of tree.
"""

from __future__ import annotations

from typing import Any, cast

import pyspiel

from games.common.errors import NotEnumerable
from games.openspiel.enumeration import deciding_states
from games.registry import make_game
from games.spec import ChoiceGame, Enumerable, choice_game


class EnumeratedState:
    """A position of an ``Enumerable`` game, with the methods of ``pyspiel.State`` that exact measures use."""

    __slots__ = ("match",)

    def __init__(self, match: Any) -> None:
        self.match = match  # a ChoiceGame and Enumerable; changed by ``apply_action`` only

    def num_players(self) -> int:
        """Return the number of seats."""
        return int(self.match.spec.seats)

    def is_chance_node(self) -> bool:
        """Return whether chance moves next."""
        return bool(self.match.chance_outcomes())

    def is_terminal(self) -> bool:
        """Return whether the match is over."""
        return not self.is_chance_node() and self.match.to_act() is None

    def current_player(self) -> int:
        """Return the seat to act, or OpenSpiel's number for chance or for the end."""
        if self.is_chance_node():
            return int(pyspiel.PlayerId.CHANCE)
        seat = self.match.to_act()
        return int(pyspiel.PlayerId.TERMINAL) if seat is None else int(seat)

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the numbers of chance's outcomes, with their probabilities."""
        return [(number, probability) for number, (_, probability) in enumerate(self.match.chance_outcomes())]

    def legal_actions(self) -> list[int]:
        """Return the ids of the legal actions, or the numbers of chance's outcomes, ascending."""
        if self.is_chance_node():
            return list(range(len(self.match.chance_outcomes())))
        return sorted(self.match.legal_ids())

    def apply_action(self, action: int) -> None:
        """Play an action by its id, or let chance have the outcome of a number."""
        match = self.match
        if outcomes := match.chance_outcomes():
            match.apply_chance(outcomes[action][0])
        else:
            match.apply(match.legal_actions()[match.legal_ids().index(action)])

    def child(self, action: int) -> EnumeratedState:
        """Return the state after an action or an outcome of chance."""
        state = EnumeratedState(self.match.copy())
        state.apply_action(action)
        return state

    def returns(self) -> list[float]:
        """Return the returns by seat."""
        return list(self.match.returns())

    def information_state_string(self, seat: int) -> str:
        """Return the seat's information state."""
        return str(self.match.information_state(seat))


class _Rules:
    """What ``deciding_states`` asks of a ``pyspiel.Game`` and of its renderer."""

    key_is_position = False

    def __init__(self, game: str) -> None:
        self._game = game

    def new_initial_state(self) -> EnumeratedState:
        return native_root(self._game)

    def key(self, state: EnumeratedState, seat: int) -> str:
        return state.information_state_string(seat)


def native_root(game: str) -> EnumeratedState:
    """Return the first state of a game written here. Raises NotEnumerable for one that cannot be enumerated."""
    match = choice_game(make_game(game), "An exact value")
    if not isinstance(match, Enumerable):
        raise NotEnumerable(
            f"{game} is not an OpenSpiel game and does not give its chance as data, so its positions cannot be "
            "enumerated. Measure by matches."
        )
    return EnumeratedState(match.undealt())


def native_points(game: str, limit: int) -> dict[tuple[int, str], ChoiceGame]:
    """Return one position for each (seat, information state) in which a seat decides, of a game written here.

    Raises NotEnumerable as ``games.openspiel.enumeration.deciding_states`` does.
    """
    rules = _Rules(game)
    states = deciding_states(game, rules, rules, limit)
    return {point: cast(ChoiceGame, state.match) for point, state in states.items()}
