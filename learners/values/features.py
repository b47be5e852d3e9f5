"""Turns as hashed features of what a seat saw and did: equal turns have equal features, similar turns share some.

A turn's features are hashes of its whole observation, and of each word with its position; an action's features hash the
same things together with the action. In a small game a whole observation is an information state, which occurs again;
in a large one the words generalise.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from arena.records import Turn

WORDS = 64  # of an observation that are used
Features = tuple[int, ...]


def hashed(*parts: object) -> int:
    """Return a 48-bit hash, the same in every process."""
    return int.from_bytes(blake2b("\x1f".join(map(str, parts)).encode(), digest_size=6).digest(), "big")


def state_features(turn: Turn) -> Features:
    """Return the features of what a seat saw before a turn."""
    return _state_features(turn.observation)


def action_features(turn: Turn) -> Features:
    """Return the features of what a seat saw and did."""
    return _action_features(turn.observation, action_of(turn))


def action_of(turn: Turn) -> str:
    """Return what a seat did: its action, or its reply if no action was read in it."""
    return turn.reply if turn.action is None else turn.action


@lru_cache(maxsize=2**15)
def _state_features(observation: str) -> Features:
    return hashed(), hashed("whole", observation), *(hashed("word", *word) for word in _words(observation))


@lru_cache(maxsize=2**15)
def _action_features(observation: str, action: str) -> Features:
    crossed = (hashed("word", *word, "action", action) for word in _words(observation))
    return *_state_features(observation), hashed("action", action), hashed("whole", observation, action), *crossed


def _words(observation: str) -> list[tuple[int, int, str]]:
    """Return the first words of an observation with their line and their position in it."""
    lines = enumerate(observation.splitlines())
    placed = ((line, position, word) for line, text in lines for position, word in enumerate(text.split()))
    return list(islice(placed, WORDS))
