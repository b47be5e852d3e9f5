"""The base of games of one seat with a task: dealt from a seed or given as text, and paid 1 when it is solved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from games.spec import GameSpec, Utility


def task_spec(name: str, num_actions: int, max_turns: int, *, free_text: bool = False) -> GameSpec:
    """Return the facts of a task game."""
    return GameSpec(
        name=name,
        seats=1,
        num_actions=num_actions,
        max_turns=max_turns,
        min_return=0.0,
        max_return=1.0,
        utility=Utility.IDENTICAL,
        perfect_information=False,
        has_chance=True,
        optimum=1.0,
        free_text=free_text,
    )


class TaskGame(ABC):
    """One match; ``_actions`` are those so far. What else a match holds never changes after its beginning."""

    spec: GameSpec
    _actions: tuple[str, ...] = ()

    def to_act(self) -> int | None:
        """Return the seat, or None when the match is over."""
        return None if self._over() else 0

    def information_state(self, seat: int) -> str:
        """Return the observation: it shows all that was said and done."""
        return self.observe(seat)

    def rewards(self) -> tuple[float, ...]:
        """Return what the match paid at its end; 0 before."""
        return self.returns()

    def returns(self) -> tuple[float, ...]:
        """Return what the match paid; 0 before its end."""
        return (float(self._over() and self._solved()),)

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)  # all immutable
        return match

    @abstractmethod
    def observe(self, seat: int) -> str:
        """Return the task as the seat sees it, and what it did so far."""

    @abstractmethod
    def _over(self) -> bool:
        """Return whether the match is over."""

    @abstractmethod
    def _solved(self) -> bool:
        """Return whether a match that is over has solved its task."""
