"""Large games in which each seat's policy is an array of its own: what is done with them, by kind of game."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from league.theory.public import dark_boards, dark_reading, goofspiel
from league.theory.public.dark_boards import DarkBoard
from league.theory.public.goofspiel import Goofspiel
from league.theory.public.reading import Position
from league.theory.public.tree import Floats


class SeatArrays(NamedTuple):
    """The functions of one kind of game; a policy is of one seat."""

    uniform: Callable[[Any, int], Floats]  # (game, seat) -> a policy in one row
    cut: Callable[[Any, Floats], Any]  # (game, row) -> the same as the game has it, on the same memory
    positions: Callable[[Any], Iterator[Position]]  # some to be timed
    read: Callable[..., Any]  # (game, seat, distributions, tell, begun) -> policy
    mixture: Callable[[Any, int, Sequence[tuple[Any, float]]], Any]  # (game, seat, [(policy, weight)]) -> policy
    value: Callable[[Any, tuple[Any, Any]], float]  # (game, policies) -> to the first seat
    best_responses: Callable[[Any, tuple[Any, Any]], tuple[float, float]]  # by seat


KINDS: dict[type, SeatArrays] = {
    Goofspiel: SeatArrays(
        uniform=lambda game, _seat: np.concatenate([part.ravel() for part in game.uniform()]),
        cut=Goofspiel.cut,
        positions=lambda game: (position for _, position in goofspiel.positions(game, 0)),
        read=goofspiel.read_policy,
        mixture=lambda game, _seat, members: goofspiel.mixture(game, members),
        value=lambda game, policies: goofspiel.value(game, policies[1], policies[0]),
        best_responses=lambda game, policies: (goofspiel.value(game, policies[1]), goofspiel.value(game, policies[0])),
    ),
    DarkBoard: SeatArrays(
        uniform=lambda board, seat: board.uniform()[seat],
        cut=lambda _board, row: row,
        positions=dark_reading.typical_positions,
        read=dark_reading.read_policy,
        mixture=dark_boards.mixture,
        value=dark_boards.value,
        best_responses=dark_boards.best_responses,
    ),
}
