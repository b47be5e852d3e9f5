"""Small sums for teams: the task, and rounds in which every seat speaks once, in the order of the seats.

A sum has ``terms`` terms from 0 to ``most``. Each game says which terms a seat is shown, and what it may say.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

from games.errors import UsageError
from games.spec import GameSpec, Utility

HIDDEN = "?"


class ArithmeticGame(ABC):
    """One match."""

    def __init__(self, name: str, terms: int, most: int, *, seats: int, actions: int, utility: Utility) -> None:
        if terms < 2 or most < 1:
            raise UsageError(f"There is no game {name!r}: a sum has terms=2 or more, of up to most=1 or more.")
        self._terms, self._most, self._actions = terms, most, actions
        self.spec = GameSpec(
            name=name,
            seats=seats,
            num_actions=actions,
            max_turns=seats,
            min_return=0.0,
            max_return=1.0,
            utility=utility,
            perfect_information=False,
            has_chance=True,
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw a sum."""
        rng = random.Random(seed)
        self.sum: tuple[int, ...] = tuple(rng.randint(0, self._most) for _ in range(self._terms))
        self._said: tuple[str, ...] = ()  # by seat, as far as the round has come

    def to_act(self) -> int | None:
        """Return the next seat."""
        return len(self._said) if len(self._said) < self.spec.seats else None

    def legal_actions(self) -> tuple[str, ...]:
        """Return what the seat to act may say."""
        seat = self.to_act()
        return () if seat is None else self._offers(seat)

    def legal_ids(self) -> tuple[int, ...]:
        """Return the places of what may be said."""
        return tuple(range(len(self.legal_actions())))

    def observe(self, seat: int) -> str:
        """Return the sum as the seat is shown it, and then what was said before."""
        return "\n".join((self._shown(seat), *self._said[:seat]))

    def information_state(self, seat: int) -> str:
        """Return what the seat observes, and what it said."""
        return "\n".join((str(seat), self.observe(seat), *self._said[seat : seat + 1]))

    def apply(self, action: str) -> None:
        """Say something. Raises ValueError for what may not be said."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal; legal: {', '.join(self.legal_actions())}.")
        self._said = (*self._said, action)

    def rewards(self) -> tuple[float, ...]:
        """Return what the round paid when it ended."""
        return self.returns()

    def returns(self) -> tuple[float, ...]:
        """Return what the round paid; zeros before its end."""
        return (0.0,) * self.spec.seats if self.to_act() is not None else self._payoffs()

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)  # all immutable
        return other

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, and ``poor``, which never minds what it is shown."""
        return {"optimal": lambda _rng: self._optimal(len(self._said)), "poor": lambda _rng: self.legal_actions()[0]}

    def _answers(self, words: str = "") -> tuple[str, ...]:
        """Return every number that a sum may come to, behind some words."""
        return tuple(f"{words}{number}" for number in range(self._terms * self._most + 1))

    def _written(self, hidden: int | None = None) -> str:
        """Return the sum in words, with one term hidden."""
        return " + ".join(HIDDEN if place == hidden else str(term) for place, term in enumerate(self.sum))

    def _is_right(self, answer: str) -> bool:
        return int(answer) == sum(self.sum)

    @abstractmethod
    def _offers(self, seat: int) -> tuple[str, ...]:
        """Return what a seat may say, most of them ``spec.num_actions``."""

    @abstractmethod
    def _shown(self, seat: int) -> str:
        """Return the sum as a seat is shown it."""

    @abstractmethod
    def _payoffs(self) -> tuple[float, ...]:
        """Return what the round pays, all having spoken."""

    @abstractmethod
    def _optimal(self, seat: int) -> str:
        """Return what the seat to act says in an optimal team."""
