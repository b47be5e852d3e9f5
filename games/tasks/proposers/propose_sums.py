"""``propose_sums``: write sums, which solvers of ``sums`` then add.

With ``form=0`` a sum is written in words, "47 + 38"; with ``form=1`` it is chosen from a list: how many digits, and
then the digits of both numbers, column by column from the last on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from games.common.errors import UsageError
from games.native.names import game_name
from games.spec import FreeText
from games.tasks.proposers.proposer_game import ProposerGame, Size, check_form, in_words
from games.tasks.sums import Sums

MOST_DIGITS = 9


class ProposeSums(ProposerGame):
    """One match of ``propose_sums``."""

    def __init__(
        self, digits: int = 4, base: int = 10, form: int = 0, tasks: int = 4, attempts: int = 8, reward: int = 0
    ) -> None:
        own = {"digits": digits, "base": base, "form": form, "tasks": tasks, "attempts": attempts, "reward": reward}
        name = game_name("propose_sums", ProposeSums, **own)
        check_form(name, form)
        if not 1 <= digits <= MOST_DIGITS:
            raise UsageError(f"There is no game {name!r}: digits is 1 to {MOST_DIGITS}.")
        self._digits, self._base = digits, base
        actions, turns = (0, 1) if form == 0 else (max(base, digits + 1), 2 * digits + 1)
        super().__init__(name, partial(Sums, digits, base), Size(tasks, attempts, reward), actions, turns)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, sums of 1, 2, 3 … digits; ``poor``, always one sum, which is valid once; ``random``."""
        return {"good": self._good, "poor": self._poor, "random": self._random}

    def _good(self, rng: random.Random) -> str:
        size = len(self._written) % self._digits + 1
        if self._in_words:
            return self._sum_of(size, rng)
        return rng.choice(self.legal_actions()) if self._actions else str(size)

    def _poor(self, _rng: random.Random) -> str:
        return "0 + 0" if self._in_words else "0" if self._actions else "1"

    def _random(self, rng: random.Random) -> str:
        return self._sum_of(rng.randint(1, self._digits), rng) if self._in_words else rng.choice(self.legal_actions())

    def _sum_of(self, size: int, rng: random.Random) -> str:
        first, second = ("".join(str(rng.randrange(self._base)) for _ in range(size)) for _ in range(2))
        return f"{first} + {second}"

    def _form(self) -> FreeText:
        example = "".join(str(digit % self._base) for digit in (4, 7)[: self._digits])
        form = f'a sum such as "{example} + {example[::-1]}", of numbers of equally many digits, at most {self._digits}'
        return in_words(form)

    def _next_parts(self) -> tuple[str, ...]:
        numbers = range(self._base) if self._actions else range(1, self._digits + 1)
        return tuple(map(str, numbers))

    def _id(self, part: str) -> int:
        return int(part)

    def _complete(self) -> bool:
        return len(self._actions) == 2 * int(self._actions[0]) + 1

    def _draft(self) -> str:
        if not self._actions:
            return ""
        columns = [*zip(self._actions[1::2], [*self._actions[2::2], "?"], strict=False)]
        return "\n".join([f"{self._actions[0]} digits", *(f"{first} + {second}" for first, second in columns)])

    def _text(self) -> str:
        if self._in_words:
            return self._actions[0]
        return f"{''.join(self._actions[1::2][::-1])} + {''.join(self._actions[2::2][::-1])}"
