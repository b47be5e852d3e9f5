"""The base of the arithmetic games: a sum, and a match in which every seat replies once, in the order of the seats.

A sum has ``terms`` terms from 0 to ``most``. Each game defines which terms a seat sees, and its legal replies.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

from games.common.errors import UsageError
from games.spec import Choices, GameSpec, Utility

HIDDEN = "?"


class ArithmeticGame(ABC):
    """One match of an arithmetic game; ``sum`` holds the terms."""

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
        self._replies: tuple[str, ...] = ()  # by seat, of those that have acted

    def to_act(self) -> int | None:
        """Return the next seat, or None after the last."""
        return len(self._replies) if len(self._replies) < self.spec.seats else None

    def actions(self) -> Choices:
        """Return the legal replies of the seat to act, with their indices as ids."""
        legal = self.legal_actions()
        return Choices(legal, tuple(range(len(legal))))

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal replies of the seat to act."""
        seat = self.to_act()
        return () if seat is None else self._legal(seat)

    def legal_ids(self) -> tuple[int, ...]:
        """Return the indices of the legal replies."""
        return tuple(range(len(self.legal_actions())))

    def observe(self, seat: int) -> str:
        """Return the sum as the seat sees it, and then the replies of the seats before it."""
        return "\n".join((self._visible_sum(seat), *self._replies[:seat]))

    def information_state(self, seat: int) -> str:
        """Return the seat, its observation, and its own reply."""
        return "\n".join((str(seat), self.observe(seat), *self._replies[seat : seat + 1]))

    def apply(self, action: str) -> None:
        """Reply. Raises ValueError for an illegal reply."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal; legal: {', '.join(self.legal_actions())}.")
        self._replies = (*self._replies, action)

    def rewards(self) -> tuple[float, ...]:
        """Return what the match paid at its end; zeros before."""
        return self.returns()

    def returns(self) -> tuple[float, ...]:
        """Return what the match paid; zeros before its end."""
        return (0.0,) * self.spec.seats if self.to_act() is not None else self._payoffs()

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)  # all immutable
        return match

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, and ``poor``, which gives its first legal reply whatever it sees."""
        return {"optimal": lambda _rng: self._optimal(len(self._replies)), "poor": lambda _rng: self.legal_actions()[0]}

    def _possible_sums(self, prefix: str = "") -> tuple[str, ...]:
        """Return every possible value of a sum, each after ``prefix``."""
        return tuple(f"{prefix}{number}" for number in range(self._terms * self._most + 1))

    def _format_sum(self, hidden: int | None = None) -> str:
        """Return the sum as text, with the term of index ``hidden`` hidden."""
        return " + ".join(HIDDEN if index == hidden else str(term) for index, term in enumerate(self.sum))

    def _is_right(self, answer: str) -> bool:
        return int(answer) == sum(self.sum)

    @abstractmethod
    def _legal(self, seat: int) -> tuple[str, ...]:
        """Return a seat's legal replies, at most ``spec.num_actions``."""

    @abstractmethod
    def _visible_sum(self, seat: int) -> str:
        """Return the sum as a seat sees it."""

    @abstractmethod
    def _payoffs(self) -> tuple[float, ...]:
        """Return what the match pays, once all seats have replied."""

    @abstractmethod
    def _optimal(self, seat: int) -> str:
        """Return the reply of the seat to act in an optimal team."""
