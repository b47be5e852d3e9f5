"""What a game may know of beliefs: right answers to questions, what its scripts believe, how much questions told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable


class Answers(NamedTuple):
    """The answers to a question about a position."""

    possible: tuple[str, ...] = ()  # distinct
    true: tuple[str, ...] = ()  # those of them that are right; () where the truth is not known


@runtime_checkable
class KnowsAnswers(Protocol):
    """A Game that knows the answers to questions (``[[probe]]`` of role cards) by their names."""

    def probe_answers(self, probe: str, seat: int) -> Answers:
        """Return what a seat may answer in this position, and what is right; nothing to a question it does not know."""
        ...


@runtime_checkable
class GivesBeliefs(Protocol):
    """A Game whose scripts have beliefs."""

    def belief(self, script: str, probe: str, seat: int) -> Mapping[str, float] | None:
        """Return the probability of each answer that a script gives in a seat; None for a script without a belief."""
        ...


@runtime_checkable
class HasInformation(Protocol):
    """A Game of questions, which tells how much each was to tell."""

    def information(self) -> tuple[float, ...]:
        """Return the information gain of each question so far, in bits, by what was known before it."""
        ...
