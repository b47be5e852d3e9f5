"""What a game may offer beyond play, each as a protocol: beliefs, tasks, bounds, named rewards, preferences.

What every game has, and what the referee asks for, is in ``games.spec``. A Game offers one of these by having its
methods; who needs it asks by ``isinstance``, and refuses a game without it by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self, runtime_checkable


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
class MarksPublic(Protocol):
    """A Game that knows which lines of its observations are common knowledge.

    That all seats are shown an equal line does not make it so: two private cards may be equal by accident, and "you"
    is another seat in each observation. Without this, replays show every line as its seat's own, unless the game has
    perfect information.
    """

    def is_public(self, line: str) -> bool:
        """Return whether a line, if every seat is shown it, says the same to all and is known to be shown to all."""
        ...


@runtime_checkable
class GivesBeliefs(Protocol):
    """A Game whose scripts have beliefs."""

    def belief(self, script: str, probe: str, seat: int) -> Mapping[str, float] | None:
        """Return the probability of each answer that a script gives in a seat; None for a script without a belief."""
        ...


@runtime_checkable
class HasInformation(Protocol):
    """A Game of questions that knows how informative each one was."""

    def information(self) -> tuple[float, ...]:
        """Return the information gain of each question so far in bits, given what was known before it."""
        ...


@runtime_checkable
class BoundsReturns(Protocol):
    """A Game that knows the least with which each seat can still end, as a forfeit must not pay the others less.

    Games in which the shortest way to know it is to play all courses do without (``games.secured_returns``).
    """

    def least_returns(self) -> tuple[float, ...]:
        """Return the least return of each seat over all legal courses of the match from this position."""  # [seats]
        ...


@runtime_checkable
class MarksEligible(Protocol):
    """A Game that knows which of its moves bear on something that came about.

    An offer that nobody answered, a claim that nobody could doubt: what follows says nothing of such a move, and the
    rule ``eligible`` of ``selection.rules`` leaves it out of training.
    """

    def eligible(self) -> tuple[bool, ...]:
        """Return for each move so far, of all seats in their order, whether what it bears on came about."""
        ...


@runtime_checkable
class PaysNamedRewards(Protocol):
    """A Game that pays rewards besides its return, each under a name: a judge's score, whether an answer was right.

    A seat's return stays what wins, is rated and is measured; a named reward is there for credit rules that weigh
    several. ``spec.reward_names`` names them all.
    """

    def named_rewards(self) -> Mapping[str, tuple[float, ...]]:
        """Return by name what the last ``apply`` paid to each seat; a name that is absent paid nothing."""
        ...


@runtime_checkable
class JudgesMatches(Protocol):
    """A Game whose matches can be compared, by a preference that need not be transitive."""

    def preference(self, other: Self, seat: int) -> float:
        """Return the probability that a judge prefers this match to another for what a seat did; both are over.

        The other match's preference over this one is 1 less that.
        """
        ...


@runtime_checkable
class TakesTasks(Protocol):
    """A Game whose match may begin with a task given as text, instead of one that it deals.

    A match may open such matches as attempts at a task. They pay as usual, and their outcome is the first seat's return
    as text ("1").
    """

    def start_task(self, task: str) -> None:
        """Begin with a task; called once after ``reset``. Raises ValueError, with the reason, for anything else."""
        ...

    def task(self) -> str:
        """Return this match's task, as ``start_task`` takes it."""
        ...

    def task_size(self) -> int:
        """Return how large the task is, such as the digits of a sum: the larger, the longer."""
        ...


@runtime_checkable
class LeavesTasks(TakesTasks, Protocol):
    """A Game of tasks a failed attempt at which is a task of its own, as a repair that repairs nothing is a new bug."""

    def left_task(self) -> str:
        """Return the task that a match which is over leaves, as ``start_task`` takes it; "" for none."""
        ...


@runtime_checkable
class WritesTasks(Protocol):
    """A Game whose match writes tasks, each of which it opens for others to attempt."""

    def invalid(self) -> tuple[str, ...]:
        """Return why tasks of this match were not admitted, one reason each."""
        ...


@runtime_checkable
class TellsPast(Protocol):
    """A Game that tells what a seat was shown of earlier apart from the present, so that a long match can be cut."""

    def past(self, seat: int) -> tuple[str, ...]:
        """Return the entries of the past in ``observe(seat)``, oldest first: hands, turns, attempts.

        Joined by line breaks they are one block of the observation; without it the observation shows the present.
        """
        ...


@runtime_checkable
class GivesHints(Protocol):
    """A Game that can help a learner by a hint."""

    def hint(self, seat: int) -> str:
        """Return the hint for a seat in this position; "" for none."""
        ...
