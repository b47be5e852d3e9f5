"""``repair``: a program of the stack language fails some of its tests; repair it.

The seat sees the tests, what the program makes of each number, and the program. With ``form=0`` it writes the mended
program; with ``form=1`` it chooses from a list which word to replace, and by which. It is paid 1 if the mended program
meets the tests and others that are not shown. ``held_out=1`` deals from a fixed list of bugs as people make them, whose
programs are never dealt otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from games.common.errors import UsageError
from games.native.names import game_name
from games.spec import Choices, FreeText
from games.tasks.admission import Refused, hidden_tests, passes
from games.tasks.bugs import RepairTask, admit_repair_task, deal_bug, replace_word
from games.tasks.checker import outcomes
from games.tasks.held_out_bugs import HELD_OUT
from games.tasks.programs import DEALT_WORDS, read_program
from games.tasks.stack_machine import MOST_CHARACTERS
from games.tasks.task_game import TaskGame, task_spec

MOST_WORDS = 12  # of a program that is mended from a list


class Repair(TaskGame):
    """One match of ``repair``."""

    def __init__(self, size: int = 4, tests: int = 4, form: int = 0, held_out: int = 0) -> None:
        name = game_name("repair", Repair, size=size, tests=tests, form=form, held_out=held_out)
        if not (2 <= size <= 8 and 3 <= tests <= 8 and form in (0, 1) and held_out in (0, 1)):
            raise UsageError(
                f"There is no game {name!r}: size is 2 to 8, tests 3 to 8, form 0 (words) or 1 (a list), and held_out "
                "0 or 1."
            )
        self._size, self._shown, self._in_words, self._held_out = size, tests, form == 0, held_out == 1
        actions, turns = (0, 1) if form == 0 else (len(DEALT_WORDS) + MOST_WORDS, 2)
        self.spec = task_spec(name, actions, turns, free_text=form == 0)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Draw a program and a bug in it."""
        if self._held_out:
            self._begin(admit_repair_task(random.Random(seed).choice(HELD_OUT)))
        else:
            self._begin(deal_bug(seed, self._size, self._shown))

    def start_task(self, task: str) -> None:
        """Begin with a task. Raises ValueError with the reason for one that is not admitted."""
        admitted = admit_repair_task(task)
        if not self._in_words and not 0 < len(admitted.bug.split()) <= MOST_WORDS:
            raise ValueError(f"its bug has not 1 to {MOST_WORDS} words, of which one is chosen")
        self._begin(admitted)

    def task(self) -> str:
        """Return the tests, the program with the bug and the right one."""
        return self._task.text()

    def task_size(self) -> int:
        """Return the number of words of the right program."""
        return len(self._task.right.solution.split())

    def left_task(self) -> str:
        """Return what a failed repair left as a bug of the same program: self-play SWE-RL's higher-order bug."""
        if not self._over() or self._solved():
            return ""
        try:
            left = admit_repair_task(RepairTask(self._task.right, self._written()).text())
        except Refused:
            return ""
        return "" if left == self._task else left.text()

    def actions(self) -> Choices | FreeText:
        """Return places or words, or what a program looks like."""
        if self._in_words and not self._over():
            return FreeText(MOST_CHARACTERS, 'the mended program, such as "dup + 3 *"', read_program)
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self) -> tuple[str, ...]:
        """Return the places of the program's words, from 1 on, and then the words of which one is put there."""
        if self._over():
            return ()
        return DEALT_WORDS if self._actions else tuple([str(place + 1) for place in range(self._places())])

    def legal_ids(self) -> tuple[int, ...]:
        """Return the words' places in the list, and after them the places."""
        first = 0 if self._actions else len(DEALT_WORDS)
        return tuple(range(first, first + len(self.legal_actions())))

    def observe(self, _seat: int) -> str:
        """Return the tests, what the program gives, the program, and the place that was chosen."""
        pairs = zip(self._task.right.tests, self._given, strict=True)
        lines = [f"{number} -> {result}, gives {given}" for (number, result), given in pairs]
        words = self._task.bug.split()
        if self._actions and not self._in_words:
            words[int(self._actions[0]) - 1] = "?"
        return "\n".join([*lines, f"Program: {' '.join(words)}"])

    def apply(self, action: str) -> None:
        """Write the mended program, or choose. Raises ValueError for anything else."""
        asked = self.actions()
        legal = asked.read(action) == action if isinstance(asked, FreeText) else action in asked.labels
        if not legal:
            raise ValueError(f"{action[:80]!r} is not legal here; legal: a program, or one of the list")
        self._actions = (*self._actions, action)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``optimal``, which knows the right program; ``poor``, which changes nothing; ``random``."""
        return {
            "optimal": lambda _rng: self._towards(self._task.right.solution),
            "poor": lambda _rng: self._towards(self._task.bug),
            "random": lambda rng: rng.choice(DEALT_WORDS if self._in_words else self.legal_actions()),
        }

    def _towards(self, program: str) -> str:
        """Return the program, or the choice that makes it where the lists allow."""
        if self._in_words:
            return program
        pairs = [*zip(self._task.bug.split(), program.split(), strict=False)]
        places = [place for place, (old, new) in enumerate(pairs) if old != new]
        if not self._actions:
            return str(places[0] + 1 if places else 1)
        word = pairs[int(self._actions[0]) - 1][1]
        return word if word in DEALT_WORDS else DEALT_WORDS[0]

    def _begin(self, task: RepairTask) -> None:
        self._task, self._actions = task, ()
        results = outcomes(task.bug, tuple([number for number, _ in task.right.tests]))
        self._given = tuple([outcome.fault if outcome.number is None else str(outcome.number) for outcome in results])

    def _places(self) -> int:
        return len(self._task.bug.split())

    def _over(self) -> bool:
        return len(self._actions) == (1 if self._in_words else 2)

    def _solved(self) -> bool:
        return passes(self._written(), (*self._task.right.tests, *hidden_tests(self._task.right)))

    def _written(self) -> str:
        """Return the program of a match that is over."""
        if self._in_words:
            return self._actions[0]
        return replace_word(self._task.bug, int(self._actions[0]) - 1, self._actions[1])
