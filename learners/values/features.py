"""Turns as features: numbers of what a seat saw and did, so that equal turns are equal and similar ones share some.

A turn's features are hashes of its whole observation, and of each of its words with its place; those of an action are
of the same with the action beside them. In a small game a whole observation is an information state, and is met again;
in a large one the words carry what is known.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from arena.records import Turn

WORDS = 64  # of an observation that are looked at
Features = tuple[int, ...]


def hashed(*parts: object) -> int:
    """Return a number of 48 bits, the same in every process."""
    return int.from_bytes(blake2b("\x1f".join(map(str, parts)).encode(), digest_size=6).digest(), "big")


def state_features(turn: Turn) -> Features:
    """Return the features of what a seat saw before a turn."""
    return _state_features(turn.observation)


def action_features(turn: Turn) -> Features:
    """Return the features of what a seat saw and did."""
    return _action_features(turn.observation, action_of(turn))


def action_of(turn: Turn) -> str:
    """Return what a seat did: its action, or the reply in which none was read."""
    return turn.reply if turn.action is None else turn.action


@lru_cache(maxsize=2**15)
def _state_features(observation: str) -> Features:
    return hashed(), hashed("whole", observation), *(hashed("word", *word) for word in _words(observation))


@lru_cache(maxsize=2**15)
def _action_features(observation: str, action: str) -> Features:
    crossed = (hashed("word", *word, "action", action) for word in _words(observation))
    return *_state_features(observation), hashed("action", action), hashed("whole", observation, action), *crossed


def _words(observation: str) -> list[tuple[int, int, str]]:
    """Return the first words of an observation with their line and place."""
    lines = enumerate(observation.splitlines())
    placed = ((line, place, word) for line, text in lines for place, word in enumerate(text.split()))
    return list(islice(placed, WORDS))
