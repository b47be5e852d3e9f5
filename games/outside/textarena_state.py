"""Copies a match's state in TextArena, clears its messages and repairs it. Names nothing of the library.

The repair adds what the state lacks: whether a reply was refused, and an end when all are out.
"""

from __future__ import annotations

import copy
from typing import Any

from games.outside.textarena_words import GameMessage

_SHARED = 2_000  # entries of a collection that is a dictionary of words, not a position: copies share it


class _Guard:
    """Mixed into an environment's state: records a refusal, and ends a match in which all are out."""

    refused = False
    shared: frozenset[str] = frozenset()  # attributes of the environment that copies of it share

    def set_invalid_move(self, *arguments: Any, **named: Any) -> Any:
        """Note the refusal, and refuse as the library does."""
        self.refused = True
        return super().set_invalid_move(*arguments, **named)  # type: ignore[misc]

    def step(self, *arguments: Any, **named: Any) -> Any:
        """Go on to the next player who is in; the library's own search for one has no end if there is none."""
        if len(set(getattr(self, "elimination_order", ()))) >= self.num_players:  # type: ignore[attr-defined]
            self.done = True
        return super().step(*arguments, **named)  # type: ignore[misc]


_GUARDED: dict[str, type] = {}  # by the name of the library's class


def guarded(kind: type) -> type:
    """Return the library's class of a state with the guard mixed in, the same at every call."""
    return _GUARDED.setdefault(f"{kind.__module__}.{kind.__name__}", type(kind.__name__, (_Guard, kind), {}))


def copied(env: Any) -> Any:
    """Return a copy of an environment that shares its dictionaries of words."""
    shared = [
        value
        for name, value in vars(env).items()
        if name in env.state.shared or (hasattr(value, "__len__") and len(value) > _SHARED)
    ]
    return copy.deepcopy(env, {id(value): value for value in shared})


def drained(env: Any, lines: tuple[tuple[GameMessage, ...], ...]) -> tuple[tuple[GameMessage, ...], ...]:
    """Return each seat's messages with the new ones, which are removed from the environment."""
    state, by_seat = env.state, list(lines)
    for seat, messages in state.observations.items():
        new = [
            GameMessage(speaker if name == "PLAYER_ACTION" else -1, str(text), name == "GAME_BOARD")
            for speaker, text, kind in messages
            for name in [getattr(kind, "name", "")]  # a few games give their messages a word for a kind
        ]
        by_seat[seat] = (*by_seat[seat], *new)
        state.observations[seat] = []
    state.logs = []
    return tuple(by_seat)
