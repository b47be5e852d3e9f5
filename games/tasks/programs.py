"""``programs``: write a program of the stack language (``stack_machine``) that meets tests.

The seat sees ``tests`` tests, a number and what is to be made of it, and writes a program; it is paid 1 if the program
meets these tests and others that it does not see, so a program that looks up what it was shown earns nothing. With
``form=0`` it writes the program at once, in words; with ``form=1`` it chooses word by word from a list, up to
``size`` + 2 of them, and then "done". Dealt tasks have solutions of 2 to ``size`` words. A task as text has tests and a
solution, which must be admitted (``admission``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache

from games.common.errors import UsageError
from games.native.names import game_name
from games.spec import Choices, FreeText
from games.tasks.admission import (
    ProgramTask,
    Refused,
    admit_program_task,
    hidden_tests,
    passes,
    tests_text,
)
from games.tasks.checker import outcomes
from games.tasks.stack_machine import MOST_CHARACTERS, ProgramFault, parse
from games.tasks.task_game import TaskGame, task_spec

DONE = "done"
DEALT_WORDS = ("1", "2", "3", "dup", "swap", "over", "drop", "+", "-", "*")
INPUTS = tuple(range(-9, 10))  # of tests that are dealt


class Programs(TaskGame):
    """One match of ``programs``."""

    def __init__(self, size: int = 4, tests: int = 4, form: int = 0) -> None:
        name = game_name("programs", Programs, size=size, tests=tests, form=form)
        if not (2 <= size <= 8 and 3 <= tests <= 8 and form in (0, 1)):
            raise UsageError(f"There is no game {name!r}: size is 2 to 8, tests 3 to 8, form 0 (words) or 1 (a list).")
        self._size, self._shown, self._in_words = size, tests, form == 0
        actions, turns = (0, 1) if form == 0 else (len(DEALT_WORDS) + 1, size + 3)
        self.spec = task_spec(name, actions, turns, free_text=form == 0)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw a task."""
        self._begin(deal_program(seed, self._size, self._shown))

    def start_task(self, task: str) -> None:
        """Begin with a task. Raises ValueError with the reason for one that is not admitted."""
        self._begin(admit_program_task(task))

    def task(self) -> str:
        """Return the tests that are shown, and the solution."""
        return self._task.text()

    def task_size(self) -> int:
        """Return the number of words of the solution."""
        return len(self._task.solution.split())

    def actions(self) -> Choices | FreeText:
        """Return the words of the language and "done", or what a program looks like."""
        if self._in_words and not self._over():
            return FreeText(MOST_CHARACTERS, 'a program such as "dup + 3 *"', read_program)
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the words from which a program is made, and "done", which alone is left when it is full."""
        if self._over():
            return ()
        return (DONE,) if len(self._actions) >= self._size + 2 else (*DEALT_WORDS, DONE)

    def legal_ids(self) -> tuple[int, ...]:
        """Return the places of the legal words in the list."""
        return tuple([(*DEALT_WORDS, DONE).index(word) for word in self.legal_actions()])

    def observe(self, _seat: int) -> str:
        """Return the tests, and the program so far."""
        tests = "\n".join(f"{number} -> {result}" for number, result in self._task.tests)
        return f"{tests}\nProgram: {' '.join(self._actions)}".rstrip()

    def apply(self, action: str) -> None:
        """Write a program or its next word. Raises ValueError for anything else."""
        asked = self.actions()
        legal = asked.read(action) == action if isinstance(asked, FreeText) else action in asked.labels
        if not legal:
            raise ValueError(f"{action[:80]!r} is not legal: it takes a program, or its next word")
        self._actions = (*self._actions, action)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, the author's solution; ``poor``, which changes nothing; ``random`` words."""
        return {
            "optimal": lambda _rng: self._next((*self._task.solution.split(), DONE)),
            "poor": lambda _rng: self._next(("1", "*", DONE)),
            "random": lambda rng: rng.choice(DEALT_WORDS if self._in_words else self.legal_actions()),
        }

    def _next(self, words: tuple[str, ...]) -> str:
        return " ".join(words[:-1]) if self._in_words else words[len(self._actions)]

    def _begin(self, task: ProgramTask) -> None:
        self._task, self._actions = task, ()

    def _over(self) -> bool:
        return bool(self._actions) and (self._in_words or self._actions[-1] == DONE)

    def _solved(self) -> bool:
        program = " ".join(word for word in self._actions if word != DONE)
        return passes(program, (*self._task.tests, *hidden_tests(self._task)))


def read_program(text: str) -> str | None:
    """Return the program that a text is, with single spaces; None for any other text."""
    program = " ".join(text.split())
    try:
        words = parse(program)
    except ProgramFault:
        return None
    return program if words else None


@lru_cache(maxsize=4096)
def deal_program(seed: int, size: int, shown: int) -> ProgramTask:
    """Return the task of a deal: the length of a solution is drawn, then programs of it until one is worth finding."""
    rng = random.Random(seed)
    words, task = rng.randint(2, size), None
    while task is None:
        solution = " ".join(rng.choices(DEALT_WORDS, k=words))
        task = task_of(solution, tuple(rng.sample(INPUTS, shown)))
    return task


def task_of(solution: str, inputs: tuple[int, ...]) -> ProgramTask | None:
    """Return the task of a solution, its results as tests; None if it is not worth finding."""
    results = outcomes(solution, inputs)
    numbers = [outcome.number for outcome in results if outcome.number is not None]
    if len(numbers) < len(inputs):
        return None
    tests = tuple(zip(inputs, numbers, strict=True))
    try:
        return admit_program_task(f"{tests_text(tests)} | {solution}")
    except Refused:
        return None
