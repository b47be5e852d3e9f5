"""A match's random number generator."""

from __future__ import annotations

import random
from typing import Any

_MASK = (1 << 64) - 1
SALT = 0xD1342543DE82EF95  # separates the match's stream from the game's generator where their seeds are equal
_BITS = 53  # random bits in a number in [0, 1)


class MatchRng(random.Random):
    """A ``random.Random`` over SplitMix64 (Steele, Lea and Flood, 2014).

    Seeding Python's own generator takes as long as a third of a match of Kuhn poker; here the seed is the state.
    """

    def __init__(self, seed: int = 0) -> None:  # Random.__init__ would seed the unused base generator
        self.gauss_next: float | None = None
        self._state = seed ^ SALT

    def seed(self, *args: Any, **kwargs: Any) -> None:
        """Restart from a seed, as ``MatchRng(seed)`` does."""
        self.__init__(*args, **kwargs)  # type: ignore[misc]

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        state = self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) >> 11) * 2.0**-53  # a constant, which a name in its place would not be

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of ``k`` random bits."""
        bits, length = 0, 0
        while length < k:
            bits = bits << _BITS | int(self.random() * (1 << _BITS))
            length += _BITS
        return bits >> (length - k)

    def getstate(self) -> tuple[Any, ...]:
        """Return the state for ``setstate``."""
        return self._state, self.gauss_next

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Restore a state of ``getstate``."""
        self._state, self.gauss_next = state
