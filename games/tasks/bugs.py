"""Programs with a bug: which are admitted, and how they are dealt.

A task of ``repair`` is text: tests, a program that fails some of them, and the one that it was, such as

    1 -> 2 ; 5 -> 10 ; -3 -> -6 | dup * | dup +

It is refused unless the right program is a task of ``programs`` (``admission``), and the bug is one: a program, another
in at most two words, that ends within the limits, and that a test shows.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from games.tasks.admission import ProgramTask, Refused, admit_program_task, tests_text
from games.tasks.checker import outcomes
from games.tasks.held_out_bugs import HELD_OUT
from games.tasks.programs import DEALT_WORDS, deal_program
from games.tasks.stack_machine import LIMITS, ProgramFault, parse

MOST_CHANGED = 2  # words
_HELD_OUT_PROGRAMS = {text.split(" | ")[2] for text in HELD_OUT}


class RepairTask(NamedTuple):
    """A program with a bug, and what it should be."""

    right: ProgramTask
    bug: str

    def text(self) -> str:
        """Return the task as ``admit_repair_task`` reads it."""
        return f"{tests_text(self.right.tests)} | {self.bug} | {self.right.solution}"


def admit_repair_task(text: str) -> RepairTask:
    """Return a task that is fit to be played. Raises Refused with the reason for any other."""
    parts = text.split(" | ")
    if len(parts) != 3:
        raise Refused("it has not tests, a program with a bug and the right one, with bars between")
    tests, bug, solution = parts
    right = admit_program_task(f"{tests} | {solution}")
    try:
        parse(bug)
    except ProgramFault as fault:
        raise Refused(f"its bug is no program: {fault}") from None
    task = RepairTask(right, " ".join(bug.split()))
    if not 0 < changed_words(task.bug, right.solution) <= MOST_CHANGED:
        raise Refused(f"its bug is not another in 1 to {MOST_CHANGED} words")
    results = outcomes(task.bug, tuple([number for number, _ in right.tests]))
    for outcome in results:
        if outcome.fault.startswith(LIMITS):
            raise Refused(f"its bug is a bomb: {outcome.fault}")
    if [outcome.number for outcome in results] == [result for _, result in right.tests]:
        raise Refused("no test shows its bug")
    return task


def changed_words(first: str, second: str) -> int:
    """Return the fewest words to be put in, taken out or replaced that make one program of another (Levenshtein)."""
    one, other = first.split(), second.split()
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        above, row = row, [number]
        for place, letter in enumerate(other):
            row.append(min(above[place] + (word != letter), above[place + 1] + 1, row[place] + 1))
    return row[-1]


@lru_cache(maxsize=4096)
def deal_right_program(seed: int, size: int, shown: int) -> ProgramTask:
    """Return a program of a deal with its tests: none of those whose bugs are held out."""
    rng, task = random.Random(seed), None
    while task is None or task.solution in _HELD_OUT_PROGRAMS:
        task = deal_program(rng.getrandbits(48), size, shown)
    return task


def deal_bug(seed: int, size: int, shown: int) -> RepairTask:
    """Return a program of a deal in which one word is replaced."""
    right, rng = deal_right_program(seed, size, shown), random.Random(seed)
    while True:
        bug = replace_word(right.solution, rng.randrange(len(right.solution.split())), rng.choice(DEALT_WORDS))
        try:
            return admit_repair_task(RepairTask(right, bug).text())
        except Refused:
            continue


def replace_word(program: str, place: int, word: str) -> str:
    """Return a program with another word in a place, from 0 on."""
    words = program.split()
    words[place] = word
    return " ".join(words)
