"""A game that judges its own matches: which of two that began alike is preferred."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable


@runtime_checkable
class JudgesMatches(Protocol):
    """A Game whose matches can be compared, by a preference that need not be transitive."""

    def preference(self, other: Self, seat: int) -> float:
        """Return the probability that a judge prefers this match to another for what a seat did; both are over.

        The other match's preference over this one is 1 less that.
        """
        ...
