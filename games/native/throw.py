"""``throw``: one seat throws rock, paper or scissors, and nothing is paid; a judge compares throws, in a circle.

The smallest game with an intransitive preference: paper is preferred to rock, scissors to paper, and rock to scissors.
No score of throws can express that (Swamy et al. 2024, arXiv 2401.04056).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Self

from games.spec import Choices, GameSpec, Utility

THROWS = ("rock", "paper", "scissors")  # each is preferred to the one before it


class Throw:
    """One match of ``throw``."""

    spec = GameSpec(
        name="throw",
        seats=1,
        num_actions=len(THROWS),
        max_turns=1,
        min_return=0.0,
        max_return=1.0,
        utility=Utility.IDENTICAL,
        perfect_information=True,
        has_chance=False,
    )

    def __init__(self) -> None:
        self.reset(0)

    def reset(self, _seed: int) -> None:
        """Begin; there is no chance."""
        self._thrown = ""

    def undealt(self) -> Self:
        """Return a new match: there is no chance."""
        return type(self)()

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return nothing: there is no chance."""
        return ()

    def apply_chance(self, outcome: str) -> None:
        """Raise ValueError: there is no chance."""
        raise ValueError(f"{outcome!r} cannot happen in throw, which has no chance.")

    def to_act(self) -> int | None:
        """Return the seat until it has thrown."""
        return None if self._thrown else 0

    def actions(self) -> Choices:
        """Return the throws, with their indices as ids."""
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the throws."""
        return () if self._thrown else THROWS

    def legal_ids(self) -> tuple[int, ...]:
        """Return their indices."""
        return tuple(range(len(self.legal_actions())))

    def observe(self, _seat: int) -> str:
        """Return what was thrown."""
        return f"You threw {self._thrown}." if self._thrown else "Throw."

    def information_state(self, seat: int) -> str:
        """Return the seat and what was thrown."""
        return f"{seat} {self._thrown}"

    def apply(self, action: str) -> None:
        """Throw. Raises ValueError for anything else."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal here; legal: {', '.join(self.legal_actions()) or 'nothing'}.")
        self._thrown = action

    def rewards(self) -> tuple[float, ...]:
        """Return 0: nothing is paid."""
        return self.returns()

    def returns(self) -> tuple[float, ...]:
        """Return 0: nothing is paid."""
        return (0.0,)

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        return copy.copy(self)

    def preference(self, other: Self, _seat: int) -> float:
        """Return 1 where this throw beats the other, 1/2 where they are the same, 0 where it is beaten."""
        ahead = (THROWS.index(self._thrown) - THROWS.index(other._thrown)) % len(THROWS)
        return (0.5, 1.0, 0.0)[ahead]

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, which throws at random, and ``poor``, which always throws rock."""
        return {"good": lambda rng: rng.choice(THROWS), "poor": lambda _rng: THROWS[0]}
