"""``propose_programs``: write tasks of ``programs``, which solvers then find programs for.

With ``form=0`` a task is written in words, tests and a solution (``games.tasks.admission``); with ``form=1`` the
solution is chosen word by word from a list, and the deal gives the numbers of its tests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from games.common.seeds import derive_seed
from games.native.names import game_name
from games.spec import FreeText
from games.tasks.admission import Refused, tests_text
from games.tasks.checker import outcomes
from games.tasks.programs import DEALT_WORDS, DONE, INPUTS, Programs, deal_program
from games.tasks.proposers.proposer_game import ProposerGame, Size, check_form, in_words

EXAMPLE = "1 -> 2 ; 5 -> 10 ; -3 -> -6 | dup +"


class ProposePrograms(ProposerGame):
    """One match of ``propose_programs``."""

    def __init__(
        self, size: int = 4, tests: int = 4, form: int = 0, tasks: int = 2, attempts: int = 8, reward: int = 0
    ) -> None:
        own = {"size": size, "tests": tests, "form": form, "tasks": tasks, "attempts": attempts, "reward": reward}
        name = game_name("propose_programs", ProposePrograms, **own)
        check_form(name, form)
        self._shape = size, tests
        actions, turns = (0, 1) if form == 0 else (len(DEALT_WORDS) + 1, size + 1)
        super().__init__(name, partial(Programs, size, tests, form), Size(tasks, attempts, reward), actions, turns)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, tasks as they are dealt; ``poor``, a program that changes nothing; ``random`` words."""
        return {"good": self._good, "poor": self._poor, "random": self._random}

    def _good(self, rng: random.Random) -> str:
        if self._in_words:
            return deal_program(rng.getrandbits(48), *self._shape).text()
        drawn = derive_seed(self._seed, "good", len(self._written))
        words = (*deal_program(drawn, *self._shape).solution.split(), DONE)
        return words[len(self._actions)]

    def _poor(self, _rng: random.Random) -> str:
        return "1 -> 1 ; 2 -> 2 ; 3 -> 3 | 1 *" if self._in_words else ("1", "*", DONE)[len(self._actions)]

    def _random(self, rng: random.Random) -> str:
        if not self._in_words:
            return rng.choice(self.legal_actions())
        return f"1 -> 2 ; 2 -> 4 ; 3 -> 6 | {rng.choice(DEALT_WORDS)} {rng.choice(DEALT_WORDS)}"

    def _form(self) -> FreeText:
        return in_words(f'tests and a program that meets them, such as "{EXAMPLE}"')

    def _next_parts(self) -> tuple[str, ...]:
        return (DONE,) if len(self._actions) >= self._shape[0] else (*DEALT_WORDS, DONE)

    def _id(self, part: str) -> int:
        return (*DEALT_WORDS, DONE).index(part)

    def _complete(self) -> bool:
        return self._actions[-1] == DONE

    def _draft(self) -> str:
        return " ".join(self._actions)

    def _text(self) -> str:
        if self._in_words:
            return self._actions[0]
        solution, count = " ".join(self._actions[:-1]), len(self._written)
        inputs = tuple(random.Random(derive_seed(self._seed, "tests", count)).sample(INPUTS, self._shape[1]))
        results = outcomes(solution, inputs)
        numbers = [outcome.number for outcome in results if outcome.number is not None]
        if len(numbers) < len(inputs):
            raise Refused("its solution fails on a number of its tests")
        return f"{tests_text(tuple(zip(inputs, numbers, strict=True)))} | {solution}"

    def _essence(self, task: str) -> str:
        return task.rpartition(" | ")[2]
