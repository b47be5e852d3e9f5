"""The base of games in which one seat writes tasks, each of which other roles then attempt.

A written task opens ``attempts`` submatches of the solver's game, which pays them as it pays its own matches. When they
are over the task pays by their solve rate, one of the shapes of ``rewards``, divided by the number of tasks, so that a
match pays -1 to 1. Where a shape has no answer key (``rewards.WITHOUT_KEY``) an attempt that agrees with most others
counts as one that solves, and what its own game paid is made up to that. A task that the solver's game does not admit,
or that the match has had before, opens none and pays the worst.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from statistics import fmean
from typing import NamedTuple, Self

from games.abilities import TakesTasks
from games.common.errors import UsageError
from games.spec import Attempt, Choices, FreeText, Game, GameSpec, Submatch, Utility
from games.talk.conversation import utterance
from games.tasks.proposers.rewards import BAND, INVALID, SHAPES, WITHOUT_KEY, agreeing, repetition
from games.tasks.stack_machine import MOST_CHARACTERS

MOST_TASKS, MOST_ATTEMPTS = 8, 64
SOLVED = "1"  # outcome of an attempt


class Size(NamedTuple):
    """How many tasks a match has, how many attempts at each, and which of ``rewards.SHAPES`` pays for them."""

    tasks: int
    attempts: int
    reward: int

    def check(self, name: str) -> None:
        """Raise UsageError for a size that no game has."""
        if not (1 <= self.tasks <= MOST_TASKS and 1 <= self.attempts <= MOST_ATTEMPTS):
            raise UsageError(f"There is no game {name!r}: tasks is 1 to {MOST_TASKS}, attempts 1 to {MOST_ATTEMPTS}.")
        if not 0 <= self.reward < len(SHAPES):
            shapes = ", ".join(f"{number} ({shape.__name__})" for number, shape in enumerate(SHAPES))
            raise UsageError(f"There is no game {name!r}: reward is one of {shapes}.")


class Written(NamedTuple):
    """A task that was written, as the solver's game holds it; "" with a reason for one that was not admitted."""

    task: str
    fault: str = ""
    solved: tuple[bool, ...] = ()  # of the attempts, once they are over
    amends: tuple[float, ...] = ()  # what each attempt is paid beside what its own game paid


class ProposerGame(ABC):
    """One match; what it holds is immutable but for the solver's game, which no match keeps anything in."""

    spec: GameSpec

    def __init__(self, name: str, solver: Callable[[], Game], size: Size, actions: int, turns: int) -> None:
        """Of a task's writing there are ``turns``, and ``actions`` is the length of their list; 0: it is words."""
        size.check(name)
        self._solver, self._size, self._in_words = solver(), size, not actions
        self.spec = GameSpec(
            name=name,
            seats=1,
            num_actions=actions,
            max_turns=turns * size.tasks,
            min_return=INVALID,
            max_return=max(1.0, SHAPES[size.reward](0.5, 0.0, inf)),
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            submatch_games=(self._solver.spec.name,),
            free_text=not actions,
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begin a match without a task."""
        self._seed, self._actions = seed, tuple[str, ...]()
        self._written, self._open = tuple[Written, ...](), False
        self._rewards, self._total = 0.0, 0.0

    def to_act(self) -> int | None:
        """Return the seat until it has written all tasks."""
        return 0 if len(self._written) < self._size.tasks else None

    def actions(self) -> Choices | FreeText:
        """Return what may be written next, or what a task looks like."""
        if self.to_act() is None:
            return Choices((), ())
        return self._form() if self._in_words else Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return what may be written next."""
        return () if self.to_act() is None else self._next_parts()

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids of ``legal_actions``."""
        return tuple(map(self._id, self.legal_actions()))

    def information_state(self, seat: int) -> str:
        """Return the observation: it shows all that the seat knows."""
        return self.observe(seat)

    def observe(self, _seat: int) -> str:
        """Return the tasks so far with how many attempts solved them, and what there is to write."""
        lines = [self._told(one) for one in self._written]
        if self.to_act() is not None:
            lines.append(f"Task {len(self._written) + 1} of {self._size.tasks}: {self._draft()}".rstrip())
        return "\n".join(lines)

    def apply(self, action: str) -> None:
        """Write a task or its next part. Raises ValueError for anything else."""
        asked = self.actions()
        legal = asked.read(action) == action if isinstance(asked, FreeText) else action in asked.labels
        if not legal:
            listed = "a task in its form" if isinstance(asked, FreeText) else ", ".join(asked.labels) or "nothing"
            raise ValueError(f"{action[:80]!r} is not legal here; legal: {listed}")
        self._actions, self._rewards, self._open = (*self._actions, action), 0.0, False
        if self._in_words or self._complete():
            self._end_task()

    def rewards(self) -> tuple[float, ...]:
        """Return what the last action paid, with what its attempts did where they are over."""
        return (self._rewards,)

    def returns(self) -> tuple[float, ...]:
        """Return what the tasks paid so far."""
        return (self._total,)

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)  # all immutable, and the solver's game is only asked
        return match

    def submatches(self) -> tuple[Submatch, ...]:
        """Return the attempts that the last action opened."""
        attempt = Submatch(self.spec.submatch_games[0], self._written[-1].task, start=True) if self._open else None
        return (attempt,) * self._size.attempts if attempt else ()

    def record_outcomes(self, outcomes: Sequence[str]) -> None:
        """Pay for the last task by the attempts at it, whose answers nobody knows."""
        self.record_attempts([Attempt(outcome) for outcome in outcomes])

    def record_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Pay for the last task by the attempts at it."""
        *earlier, last = self._written
        shape = SHAPES[self._size.reward]
        paid = tuple([attempt.outcome == SOLVED for attempt in attempts])
        solved = agreeing([attempt.answer for attempt in attempts]) if shape in WITHOUT_KEY else paid
        rate = sum(solved) / len(solved)
        trains = shape not in WITHOUT_KEY or abs(rate - 0.5) <= BAND
        amends = tuple([float(trains and right) - own for right, own in zip(solved, paid, strict=True)])
        last = last._replace(solved=solved, amends=amends)
        self._written, self._open = (*earlier, last), False
        others = [self._essence(one.task) for one in earlier if one.task]
        alike = repetition(self._essence(last.task), others, self._size.tasks)
        self._pay(shape(rate, alike, fmean(attempt.calls for attempt in attempts)))

    def submatch_returns(self) -> tuple[tuple[float, ...], ...]:
        """Return what each attempt is paid beside what its own game paid: 0 where there is an answer key."""
        return tuple([(amends,) for one in self._written for amends in one.amends])

    def invalid(self) -> tuple[str, ...]:
        """Return why tasks of this match were not admitted, one reason each."""
        return tuple([one.fault for one in self._written if one.fault])

    def _end_task(self) -> None:
        try:
            written = Written(self._admitted())
        except ValueError as refused:
            written = Written("", str(refused))
        self._written, self._actions, self._open = (*self._written, written), (), not written.fault
        if written.fault:
            self._pay(INVALID)

    def _admitted(self) -> str:
        """Return the task as the solver's game holds it. Raises ValueError for one that is not admitted."""
        solver = self._solver.copy()
        assert isinstance(solver, TakesTasks)
        solver.start_task(self._text())
        task = solver.task()
        if task in (one.task for one in self._written):
            raise ValueError("the match has had it before")
        return task

    def _pay(self, amount: float) -> None:
        self._rewards = amount / self._size.tasks
        self._total += self._rewards

    def _told(self, written: Written) -> str:
        """Return what has become of a task."""
        if written.fault:
            return f"not a valid task: {written.fault}"
        count, of = sum(written.solved), len(written.solved)
        agreed = SHAPES[self._size.reward] in WITHOUT_KEY
        solved = "not tried" if not of else f"{count} of {of} agree" if agreed else f"solved by {count} of {of}"
        return f"{self._essence(written.task)}: {solved}"

    def _essence(self, task: str) -> str:
        """Return the part of a task that makes it this one, which is shown, and compared with the others'."""
        return task

    @abstractmethod
    def _form(self) -> FreeText:
        """Return the request for a task in words."""

    @abstractmethod
    def _next_parts(self) -> tuple[str, ...]:
        """Return what may be written next, where parts are chosen from a list."""

    @abstractmethod
    def _id(self, part: str) -> int:
        """Return the id of a part of the list."""

    @abstractmethod
    def _complete(self) -> bool:
        """Return whether the parts so far are a whole task."""

    @abstractmethod
    def _draft(self) -> str:
        """Return the parts so far as the author sees them."""

    @abstractmethod
    def _text(self) -> str:
        """Return what was written, as the solver's game takes tasks."""


class WordsOnly(ProposerGame):
    """A game whose tasks are written in words alone."""

    def _next_parts(self) -> tuple[str, ...]:
        return ()

    def _id(self, part: str) -> int:
        raise ValueError(f"{part!r} is in no list")

    def _complete(self) -> bool:
        return True

    def _draft(self) -> str:
        return ""

    def _text(self) -> str:
        return self._actions[0]


def check_form(name: str, form: int) -> None:
    """Raise UsageError for a form that no game has."""
    if form not in (0, 1):
        raise UsageError(f"There is no game {name!r}: form is 0 (words) or 1 (a list).")


def in_words(form: str) -> FreeText:
    """Return the request for a task in one line of words: whether it is one is for the solver's game to say."""
    return FreeText(MOST_CHARACTERS, form, partial(utterance, most=MOST_CHARACTERS))
