"""Decides which tasks are admitted by running programs, never by what is claimed about them.

A task of ``programs`` is text: tests, and a solution that must pass them, such as

    1 -> 2 ; 5 -> 10 ; -3 -> -6 | dup +

It is refused unless the solution passes every test within the limits, and is a function worth finding: it stays within
the limits on other numbers too, changes its number, is not constant, and does not look its tests up.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from games.tasks.checker import outcomes
from games.tasks.stack_machine import MOST_CHARACTERS

FEWEST_TESTS, MOST_TESTS = 3, 8
LARGEST_INPUT = 99
HIDDEN = 6  # tests that are not shown
PROBES = (*range(-12, 13), -97, -50, -31, 37, 64, 99)  # numbers that a solution must be able to take
_TEST = re.compile(r"(-?[0-9]{1,13}) -> (-?[0-9]{1,13})")


class Refused(ValueError):
    """Why a task is not admitted, as a sentence without its end."""


class ProgramTask(NamedTuple):
    """Tests that a program must meet, and the solution that its author gave."""

    tests: tuple[tuple[int, int], ...]  # a number and what is to be made of it
    solution: str

    def text(self) -> str:
        """Return the task as ``read_program_task`` reads it."""
        return f"{tests_text(self.tests)} | {self.solution}"


def tests_text(tests: tuple[tuple[int, int], ...]) -> str:
    """Return tests as text."""
    return " ; ".join(f"{number} -> {result}" for number, result in tests)


def read_program_task(text: str) -> ProgramTask:
    """Return the task that a text holds. Raises Refused for a text that holds none; it is not checked here."""
    if len(text) > 2 * MOST_CHARACTERS:
        raise Refused(f"it has more than {2 * MOST_CHARACTERS} characters")
    tests, bar, solution = text.partition(" | ")
    if not bar:
        raise Refused("it lacks tests and a solution separated by a bar")
    parts = tests.split(" ; ")
    matches = [_TEST.fullmatch(part) for part in parts]
    pairs = [(int(match[1]), int(match[2])) for match in matches if match]
    if len(pairs) < len(parts):
        raise Refused("a test is not written NUMBER -> NUMBER")
    return ProgramTask(tuple(pairs), " ".join(solution.split()))


def admit_program_task(text: str) -> ProgramTask:
    """Return a task that is fit to be played. Raises Refused with the reason for any other."""
    task = read_program_task(text)
    inputs = [number for number, _ in task.tests]
    if not FEWEST_TESTS <= len(inputs) <= MOST_TESTS or len(set(inputs)) < len(inputs):
        raise Refused(f"it has not {FEWEST_TESTS} to {MOST_TESTS} tests of different numbers")
    if max(map(abs, inputs)) > LARGEST_INPUT:
        raise Refused(f"a test's number is beyond {LARGEST_INPUT}")
    others = [number for number in PROBES if number not in inputs]
    found = outcomes(task.solution, (*inputs, *others))
    for number, outcome in zip((*inputs, *others), found, strict=True):
        if outcome.number is None:
            raise Refused(f"its solution fails on {number}: {outcome.fault}")
    results = [outcome.number for outcome in found]
    if results[: len(inputs)] != [result for _, result in task.tests]:
        raise Refused("its solution fails one of its tests")
    if results == [*inputs, *others]:
        raise Refused("its solution changes nothing")
    if len(set(results[len(inputs) :])) == 1 or len(set(results[: len(inputs)])) == 1:
        raise Refused("its solution is constant on its tests, or on all other numbers")
    if _looks_up(task):
        raise Refused("its solution compares its number with a test's")
    return task


def passes(program: str, tests: tuple[tuple[int, int], ...]) -> bool:
    """Return whether a program makes of each test's number what it should."""
    results = outcomes(program, tuple([number for number, _ in tests]))
    return [outcome.number for outcome in results] == [result for _, result in tests]


def hidden_tests(task: ProgramTask) -> tuple[tuple[int, int], ...]:
    """Return tests of numbers that are not shown, by the author's solution."""
    seen = {number for number, _ in task.tests}
    numbers = tuple([number for number in PROBES if number not in seen])
    numbers = numbers[:: len(numbers) // HIDDEN]
    results = outcomes(task.solution, numbers)
    return tuple([(n, o.number) for n, o in zip(numbers, results, strict=True) if o.number is not None])


def _looks_up(task: ProgramTask) -> bool:
    words = task.solution.split()
    inputs = {str(number) for number, _ in task.tests} - {"0", "1"}  # with which a function may well compare
    return any(word in inputs and words[place + 1 : place + 2] == ["="] for place, word in enumerate(words))
