"""A stored start, and the figures of its matches so far."""

from __future__ import annotations

import math
from typing import NamedTuple

from arena.records import Start


class StoredStart(NamedTuple):
    """A start of the pool. Values are returns as a share of the game's range, 0 to 1: for 0/1 tasks, solve rates."""

    start: Start
    size: int  # of its task, or the most turns of a match from it
    parent: str = ""  # the name of the start that it was made from
    author: str = ""  # who wrote it: "seed" for a deal, an expert, a policy
    born: int = 0  # iteration
    plays: int = 0  # matches from it, ever
    rate: float = 0.0  # mean value of recent matches
    spread: float = 0.0  # standard deviation of their values
    surprise: float = 0.0  # mean distance of a value from the mean before it
    best: float = 0.0  # the largest value ever
    last: int = -1  # iteration of its last match

    @property
    def name(self) -> str:
        """The start's name."""
        return self.start.name


class StartSums(NamedTuple):
    """The sums of a start's matches in one iteration, or in all iterations with less weight on older ones."""

    plays: float
    total: float  # of values
    squares: float  # of values
    surprise: float  # distances of values from the mean before them
    best: float

    def then(self, later: StartSums, kept: float) -> StartSums:
        """Return these sums with a share ``kept`` of their weight, plus later ones."""
        plays, total, squares, surprise = (kept * old + new for old, new in zip(self[:4], later[:4], strict=True))
        return StartSums(plays, total, squares, surprise, max(self.best, later.best))

    @property
    def mean(self) -> float:
        """The mean value."""
        return self.total / self.plays

    @property
    def spread(self) -> float:
        """The standard deviation of the values."""
        return math.sqrt(max(self.squares / self.plays - self.mean**2, 0.0))


def sums_of(values: list[float], before: float | None) -> StartSums:
    """Return the sums of an iteration's values; ``before`` is the mean until then, None: this iteration's."""
    mean = math.fsum(values) / len(values) if before is None else before
    return StartSums(
        float(len(values)),
        math.fsum(values),
        math.fsum(value * value for value in values),
        math.fsum(abs(value - mean) for value in values),
        max(values),
    )
