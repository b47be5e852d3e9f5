"""``inject_repair``: plant a bug in a program with tests, which others then repair (Wei et al. 2025, self-play SWE-RL).

The deal gives the program. With ``form=0`` the seat writes the program with its bug; with ``form=1`` it chooses from a
list which word to replace, and by which. What is not a bug (``games.tasks.bugs``) pays the worst. ``reward`` is
``low_not_zero`` unless it is set otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from games.native.names import game_name
from games.spec import FreeText
from games.tasks.admission import tests_text
from games.tasks.bugs import deal_right_program, replace_word
from games.tasks.programs import DEALT_WORDS
from games.tasks.proposers.proposer_game import ProposerGame, Size, check_form, in_words
from games.tasks.repair import MOST_WORDS, Repair


class InjectRepair(ProposerGame):
    """One match of ``inject_repair``."""

    def __init__(
        self, size: int = 4, tests: int = 4, form: int = 0, tasks: int = 2, attempts: int = 8, reward: int = 1
    ) -> None:
        own = {"size": size, "tests": tests, "form": form, "tasks": tasks, "attempts": attempts, "reward": reward}
        name = game_name("inject_repair", InjectRepair, **own)
        check_form(name, form)
        self._shape = size, tests
        actions, turns = (0, 1) if form == 0 else (len(DEALT_WORDS) + MOST_WORDS, 2)
        super().__init__(name, partial(Repair, size, tests, form), Size(tasks, attempts, reward), actions, turns)

    def reset(self, seed: int) -> None:
        """Draw a program."""
        super().reset(seed)
        self._right = deal_right_program(seed, *self._shape)

    def observe(self, seat: int) -> str:
        """Return the tests and the program, the bugs so far with how many repaired them, and this one's beginning."""
        tests = "\n".join(f"{number} -> {result}" for number, result in self._right.tests)
        return f"{tests}\nProgram: {self._right.solution}\n{super().observe(seat)}"

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, another word each time; ``poor``, which changes nothing; ``random``."""
        return {"good": self._good, "poor": self._poor, "random": self._random}

    def _good(self, rng: random.Random) -> str:
        """Return another word for one of the program's, in turn, so that no two bugs of a match are alike."""
        words = self._right.solution.split()
        place = len(self._written) % len(words)
        if not self._in_words and not self._actions:
            return str(place + 1)
        word = rng.choice([word for word in DEALT_WORDS if word != words[place]])
        return replace_word(self._right.solution, place, word) if self._in_words else word

    def _poor(self, _rng: random.Random) -> str:
        if self._in_words:
            return self._right.solution
        return self._right.solution.split()[0] if self._actions else "1"

    def _random(self, rng: random.Random) -> str:
        if not self._in_words:
            return rng.choice(self.legal_actions())
        place = rng.randrange(len(self._right.solution.split()))
        return replace_word(self._right.solution, place, rng.choice(DEALT_WORDS))

    def _form(self) -> FreeText:
        return in_words(f'the program with a bug, such as "{self._right.solution} 1 +"')

    def _next_parts(self) -> tuple[str, ...]:
        if self._actions:
            return DEALT_WORDS
        return tuple([str(place + 1) for place in range(len(self._right.solution.split()))])

    def _id(self, part: str) -> int:
        return DEALT_WORDS.index(part) if self._actions else len(DEALT_WORDS) + int(part) - 1

    def _complete(self) -> bool:
        return len(self._actions) == 2

    def _draft(self) -> str:
        return replace_word(self._right.solution, int(self._actions[0]) - 1, "?") if self._actions else ""

    def _text(self) -> str:
        bug = self._actions[0]
        if not self._in_words:
            bug = replace_word(self._right.solution, int(bug) - 1, self._actions[1])
        return f"{tests_text(self._right.tests)} | {bug} | {self._right.solution}"

    def _essence(self, task: str) -> str:
        return task.split(" | ")[1]
