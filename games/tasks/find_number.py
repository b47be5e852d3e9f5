"""``find_number``: find a number by an instruction; a program that the seat does not see verifies it.

It is paid 1 if the verifier accepts the number. The instruction is shown as a quotation, because anybody may have
written it. Dealt are three kinds: multiples between two numbers, squares and sums.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from games.native.names import game_name
from games.spec import Choices, FreeText
from games.talk.conversation import quoted
from games.tasks.challenges import LARGEST, Challenge, accepts, admit_challenge, deal_challenge
from games.tasks.task_game import TaskGame, task_spec

_CHARACTERS = 20


class FindNumber(TaskGame):
    """One match of ``find_number``."""

    def __init__(self) -> None:
        self.spec = task_spec(game_name("find_number", FindNumber), 0, 1, free_text=True)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw an instruction and its verifier."""
        self._begin(deal_challenge(seed))

    def start_task(self, task: str) -> None:
        """Begin with a task. Raises ValueError with the reason for one that is not admitted."""
        self._begin(admit_challenge(task))

    def task(self) -> str:
        """Return the instruction, the verifier, the solution and the cases of failure."""
        return self._task.text()

    def task_size(self) -> int:
        """Return the number of words of the verifier."""
        return len(self._task.verifier.split())

    def actions(self) -> Choices | FreeText:
        """Return what a number looks like."""
        if self._over():
            return Choices((), ())
        return FreeText(_CHARACTERS, f"a number from -{LARGEST} to {LARGEST}, in digits", read_number)

    def observe(self, _seat: int) -> str:
        """Return the instruction, and the number that was answered."""
        return "\n".join([f"Find the number: {quoted(self._task.instruction)}", *self._actions])

    def hint(self, _seat: int) -> str:
        """Return a number that the verifier accepts."""
        return f"{self._task.solution} is one."

    def apply(self, action: str) -> None:
        """Answer. Raises ValueError for anything but a number."""
        if self._over() or read_number(action) != action:
            raise ValueError(f"{action[:80]!r} is not legal here; legal: a number from -{LARGEST} to {LARGEST}")
        self._actions = (action,)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, the author's solution; ``poor``, a case of failure; ``random`` numbers."""
        return {
            "optimal": lambda _rng: str(self._task.solution),
            "poor": lambda _rng: str(self._task.failures[0]),
            "random": lambda rng: str(rng.randint(-LARGEST, LARGEST)),
        }

    def _begin(self, task: Challenge) -> None:
        self._task, self._actions = task, ()

    def _over(self) -> bool:
        return bool(self._actions)

    def _solved(self) -> bool:
        return accepts(self._task, int(self._actions[0]))


def read_number(text: str) -> str | None:
    """Return the number that a text is, without leading zeros; None for any other text."""
    match = re.fullmatch(r"\s*(-?[0-9]{1,2})\s*", text)
    return str(int(match[1])) if match else None
