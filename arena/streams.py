"""A match's own stream of random numbers."""

from __future__ import annotations

import random
from typing import Any

_MASK = (1 << 64) - 1
_APART = 0xD1342543DE82EF95  # keeps a stream apart from the game's own generator, should their seeds be equal
_BITS = 53  # random bits in a number in [0, 1)


class Stream(random.Random):
    """A ``random.Random`` over SplitMix64 (Steele, Lea and Flood, 2014).

    Seeding Python's own generator takes as long as a third of a match of Kuhn poker; here the seed is
    the state.
    """

    def __init__(self, seed: int = 0) -> None:  # Random's own would seed the generator that is not used
        self.gauss_next: float | None = None
        self._state = seed ^ _APART

    def seed(self, *args: Any, **kwargs: Any) -> None:
        """Begin another stream, as ``Stream(seed)`` does."""
        self.__init__(*args, **kwargs)  # type: ignore[misc]

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        state = self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) >> 11) * 2.0**-_BITS

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of ``k`` random bits."""
        bits, length = 0, 0
        while length < k:
            bits = bits << _BITS | int(self.random() * (1 << _BITS))
            length += _BITS
        return bits >> (length - k)

    def getstate(self) -> tuple[Any, ...]:
        """Return all that ``setstate`` needs to go on from here."""
        return self._state, self.gauss_next

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Go on from where ``getstate`` was called."""
        self._state, self.gauss_next = state
