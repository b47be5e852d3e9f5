"""Repeated matrix games: their names, and the stage game of every round."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from games.openspiel.game import OpenSpielGame

REPEATED = "repeated_game("

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageGame:
    """The matrix game of every round, in its own units."""

    name: str  # of the repeated game
    actions: tuple[tuple[str, ...], ...]  # by seat
    payoffs: Floats  # to each seat, by joint action  # [seats, A_0, ..., A_seats-1]
    rounds: int


def is_repeated(name: str) -> bool:
    """Return whether a game is OpenSpiel's repetition of a matrix game."""
    return name.startswith(REPEATED)


@functools.cache
def stage_game(name: str) -> StageGame:
    """Return the stage game of a repeated game, as its first round pays. Raises UsageError for any other game."""
    if not is_repeated(name):
        raise UsageError(
            f"{name} is no repeated matrix game, so the payoff of another action in a round is unknown. Use "
            'one, for example "repeated_game(stage_game=matrix_rps(),num_repetitions=8)".'
        )
    start = OpenSpielGame(name)
    seats = start.spec.seats
    match, actions = start.copy(), []
    for _ in range(seats):
        actions.append(match.legal_actions())
        match.apply(actions[-1][0])
    payoffs = np.empty((seats, *map(len, actions)))
    for joint in np.ndindex(*payoffs.shape[1:]):
        match = start.copy()
        for seat, action in enumerate(joint):
            match.apply(actions[seat][action])
        payoffs[:, *joint] = match.returns()
    return StageGame(name, tuple(actions), payoffs, start.spec.max_turns // seats)


def least_returns(game: OpenSpielGame) -> tuple[float, ...]:
    """Return the least with which each seat of a repeated game can still end: its worst payoff in each round to come.

    In a round that has started, that is its worst payoff beside the actions that are chosen already.
    """
    stage = stage_game(game.spec.name)
    moves = game.pyspiel_state().history()
    over, chosen = divmod(len(moves), game.spec.seats)
    worst = stage.payoffs.reshape(game.spec.seats, -1).min(axis=1)  # [seats]
    least = np.asarray(game.returns()) + worst * (stage.rounds - over - bool(chosen))
    if chosen:
        least += stage.payoffs[:, *moves[-chosen:]].reshape(game.spec.seats, -1).min(axis=1)
    return tuple(map(float, least))
