"""Walks a game and visits each information state, for OpenSpiel's states and for others with the same methods."""

from __future__ import annotations

from typing import Any

from games.openspiel.size import refuse_large, too_large

# The walk may visit this many histories for each information state that it may return; liars_dice needs 12.
HISTORIES_PER_POINT = 20


def deciding_states(name: str, game: Any, renderer: Any, limit: int) -> dict[tuple[int, str], Any]:
    """Return the first state of a game for each (seat, information state) in which a seat decides.

    The walk visits every history, chance included; in a board game whose key is the board, every board. ``game`` is a
    ``pyspiel.Game`` and ``renderer`` keys its states, or both have those methods.
    Raises NotEnumerable as soon as it has visited more than ``limit`` information states, or more than
    ``HISTORIES_PER_POINT`` times as many histories.
    """
    most_histories = limit * HISTORIES_PER_POINT
    refuse_large(name, game, renderer, limit, most_histories)
    states: dict[tuple[int, str], Any] = {}
    stack, histories = [game.new_initial_state()], 1
    while stack:
        state = stack.pop()
        if state.is_terminal():
            continue
        if not state.is_chance_node():
            seat = state.current_player()
            point = (seat, renderer.key(state, seat))
            if point not in states:
                states[point] = state
            elif renderer.key_is_position:
                continue
        children = [state.child(action) for action in reversed(state.legal_actions())]
        histories += len(children)
        if len(states) > limit:
            raise too_large(name, "information states", limit)
        if histories > most_histories:
            raise too_large(name, "histories", most_histories)
        stack += children
    return states
