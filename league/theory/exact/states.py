"""The states that exact measures walk: OpenSpiel's, or states of our own games whose chance moves are data."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any

import pyspiel

from games.common.errors import UsageError
from games.enumerated import EnumeratedState, native_root
from games.openspiel.game import OpenSpielGame, information_state, load_pyspiel
from games.registry import make_game

Key = tuple[int, str]  # (seat, information state)


def is_native(game: str) -> bool:
    """Return whether a game is written here or in a plugin, not OpenSpiel's."""
    return not isinstance(make_game(game), OpenSpielGame)


def root_state(game: str) -> Any:
    """Return the first state of a game: a ``pyspiel.State``, or one with its methods.

    Raises UsageError for a game without exact probabilities, NotEnumerable for one of ours without chance data.
    """
    if is_native(game):
        return native_root(game)
    loaded = load_pyspiel(game)
    if loaded.get_type().chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise UsageError(
            f"{game} cannot be analysed exactly: OpenSpiel samples its chance moves and does not give "
            "their probabilities. Compare players by matches instead."
        )
    return loaded.new_initial_state()


def state_key(game: str, state: Any, seat: int) -> str:
    """Return the information state of a seat in a state below ``root_state(game)``."""
    if isinstance(state, EnumeratedState):
        return state.information_state_string(seat)
    return information_state(game, state, seat)


@lru_cache(maxsize=64)
def has_more_positions(game: str, limit: int) -> bool:
    """Return whether a game's tree has more than ``limit`` positions; the answer is kept for the life of the process.

    Positions are counted level by level, as children of the level above, and are set up only to count their own
    children. The level that passes the limit, which has most of them, is never set up. Raises as ``root_state`` does.
    """
    count, waiting = 1, deque[tuple[Any, int | None]]([(root_state(game), None)])
    while waiting and count <= limit:
        parent, action = waiting.popleft()
        state = parent if action is None else parent.child(action)
        if state.is_chance_node():
            actions = [outcome for outcome, probability in state.chance_outcomes() if probability > 0.0]
        else:
            actions = [] if state.is_terminal() else state.legal_actions()
        count += len(actions)
        waiting.extend([(state, action) for action in actions])
    return count > limit
