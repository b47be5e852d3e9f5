"""``sums``: two numbers are added column by column, from the last digit on; a wrong digit ends the match.

Numbers have 1 to ``digits`` digits, as many as the deal says, all sizes alike, in base ``base``. The sum is written
with one digit more than they have, so that what is carried out of the first column is written too. All right: 1.
A task is a sum as text: "47 + 38".
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from games.common.errors import UsageError
from games.native.names import game_name
from games.spec import Choices
from games.tasks.task_game import TaskGame, task_spec

MOST_DIGITS = 20


class Sums(TaskGame):
    """One match of ``sums``."""

    def __init__(self, digits: int = 4, base: int = 10) -> None:
        name = game_name("sums", Sums, digits=digits, base=base)
        if not (1 <= digits <= MOST_DIGITS and 2 <= base <= 10):
            raise UsageError(f"There is no game {name!r}: digits is 1 to {MOST_DIGITS}, and base 2 to 10.")
        self._most, self._base = digits, base
        self.spec = task_spec(name, base, digits + 1)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw the number of digits, and then two numbers of this many."""
        rng = random.Random(seed)
        size = rng.randint(1, self._most)
        self._begin(tuple([(rng.randrange(self._base), rng.randrange(self._base)) for _ in range(size)]))

    def start_task(self, task: str) -> None:
        """Begin with a sum. Raises ValueError for a text that is not a sum of two numbers of this game's size."""
        match = re.fullmatch(r"([0-9]+) \+ ([0-9]+)", task)
        if not match or len(match[1]) != len(match[2]) or len(match[1]) > self._most:
            raise ValueError(f"it is not NUMBER + NUMBER, of equally many digits, at most {self._most}")
        if max(match[1] + match[2]) >= str(self._base) and self._base < 10:
            raise ValueError(f"it has a digit that base {self._base} does not have")
        self._begin(tuple([(int(a), int(b)) for a, b in zip(match[1][::-1], match[2][::-1], strict=True)]))

    def task(self) -> str:
        """Return the sum."""
        first, second = ("".join(str(pair[row]) for pair in reversed(self._columns)) for row in (0, 1))
        return f"{first} + {second}"

    def task_size(self) -> int:
        """Return the number of digits."""
        return len(self._columns)

    def actions(self) -> Choices:
        """Return the digits."""
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the digits; none when the match is over."""
        return () if self._over() else tuple([str(digit) for digit in range(self._base)])

    def legal_ids(self) -> tuple[int, ...]:
        """Return the digits' values."""
        return tuple(range(len(self.legal_actions())))

    def observe(self, _seat: int) -> str:
        """Return the columns so far, each with what was written below it, and the one to be added now."""
        columns = [*self._columns, (0, 0)][: len(self._actions) + 1]
        written = [*self._actions, "?"][: len(columns)]
        lines = [f"{a} + {b} = {digit}" for (a, b), digit in zip(columns, written, strict=True)]
        return "\n".join([f"{self.task_size()} digits", *lines])

    def hint(self, _seat: int) -> str:
        """Return the digit that is right now."""
        return "" if self._over() else f"Write {self._right[len(self._actions)]}."

    def apply(self, action: str) -> None:
        """Write a digit. Raises ValueError for anything else."""
        if action not in self.legal_actions():
            raise ValueError(f"{action!r} is not legal; legal: {', '.join(self.legal_actions()) or 'nothing'}")
        self._actions = (*self._actions, action)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``; ``no_carry``, which adds each column by itself; ``poor``, which always writes 0."""
        return {
            "optimal": lambda _rng: self._right[len(self._actions)],
            "no_carry": lambda _rng: str(sum([*self._columns, (0, 0)][len(self._actions)]) % self._base),
            "poor": lambda _rng: "0",
        }

    def _begin(self, columns: tuple[tuple[int, int], ...]) -> None:
        """Begin with the columns of a sum, the last digits first."""
        self._columns, self._actions, carry, right = columns, (), 0, list[str]()
        for pair in (*columns, (0, 0)):
            carry, digit = divmod(sum(pair) + carry, self._base)
            right.append(str(digit))
        self._right = tuple(right)

    def _over(self) -> bool:
        return len(self._actions) == len(self._right) or self._actions != self._right[: len(self._actions)]

    def _solved(self) -> bool:
        return self._actions == self._right
