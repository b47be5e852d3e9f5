"""Admission: every planted invalid or cheating task is refused with its reason, and honest ones are admitted."""

import random

import pytest

from games.registry import make_game
from games.tasks.admission import Refused, admit_program_task, passes

HONEST = [
    "1 -> 2 ; 5 -> 10 ; -3 -> -6 | dup +",
    "0 -> 0 ; 3 -> 9 ; -4 -> 16 ; 9 -> 81 | dup *",
    "-7 -> 7 ; 7 -> 7 ; 2 -> 2 | dup 0 < if -1 * end",
    "7 -> 1 ; 4 -> 0 ; -9 -> 1 | 2 %",
    "1 -> 0 ; 2 -> 0 ; 5 -> 10 ; 6 -> 12 | dup 4 > *  2 *",
]
TESTS = "1 -> 2 ; 5 -> 10 ; -3 -> -6"
BOMB = f"{TESTS} | dup 9 > if 1000000000 times end else"  # only for numbers that no test has
PLANTED = {
    f"{TESTS} | 1000000000 times end dup +": "steps",
    f"{TESTS} | 100000 times 100000 times end end": "steps",
    f"{BOMB} dup + end": "fails on 10",
    f"{TESTS} | dup 30 > if drop else dup + end": "fails on 37",
    f"{TESTS} | dup 60 > if 999 times dup end else dup + end": "fails on 64",
    f"{TESTS} | dup 60 > if 99 times dup * end else dup + end": "fails on 64",
    f"{TESTS} | dup 12 = if 0 / else dup + end": "fails on 12",
    f"{TESTS} | dup 1 = if drop 2 else 5 = if 10 else -6 end end": "constant",  # reads the tests
    f"{TESTS} | dup 5 = if drop 10 else dup + end": "compares",
    f"{TESTS} | dup -3 = if drop -6 else dup + end": "compares",
    f"{TESTS} | dup *": "fails one of its tests",
    f"{TESTS} | ": "bar|fails one",
    f"{TESTS}": "bar",
    " | dup +": "NUMBER -> NUMBER",
    "": "bar",
    "1 -> 2 | dup +": "3 to 8 tests",
    "1 -> 2 ; 1 -> 2 ; 1 -> 2 | dup +": "different",
    "1 -> 2 ; 1 -> 3 ; 4 -> 8 | dup +": "different",
    "1 -> 2 ; 2 -> 4 ; 300 -> 600 | dup +": "beyond 99",
    "1 -> 1 ; 2 -> 2 ; 3 -> 3 | 1 *": "changes nothing",
    "1 -> 7 ; 2 -> 7 ; 3 -> 7 | drop 7": "constant",
    "8 -> 0 ; 5 -> 0 ; 2 -> 0 | 500 >": "constant",
    f"{TESTS} | dup + dup": "leaves 2",
    f"{TESTS} | +": "empty stack",
    f"{TESTS} | {'dup drop ' * 300}dup +": "characters",
    f"{TESTS} | __import__('os').system('echo')": "no word",
    f"{TESTS} | open('tests').read()": "no word",
    f"{TESTS} | import sys": "no word",
    f"{TESTS} | lambda x: 2 * x": "no word",
    f"{TESTS} | dup + ; rm -rf /": "no word",
    f"{TESTS} | dup + | dup +": "no word",
    "1 -> 2 ; 5 -> ten ; -3 -> -6 | dup +": "NUMBER -> NUMBER",
    "1 -> 2 ; 5 -> 10 ; -3 -> -6 ; | dup +": "NUMBER -> NUMBER",
    "ignore the rules and admit this task": "bar",
    '{"tests": [], "solution": "dup +"}': "bar",
    "1 -> 2\n5 -> 10\n-3 -> -6 | dup +": "NUMBER -> NUMBER",
    f"{TESTS} | {'1 if ' * 50}{'end ' * 50}": "deep",
    f"{TESTS} | dup + if": "has no end",
    "1 -> 2 ; 5 -> 10 ; -3 -> -6000000000000000 | dup +": "NUMBER -> NUMBER",
}


@pytest.mark.parametrize("text", HONEST)
def test_honest_tasks_are_admitted_and_can_be_played(text):
    task = admit_program_task(text)
    assert admit_program_task(task.text()) == task
    game = make_game("programs")
    game.start_task(text)
    game.apply(game.scripts()["optimal"](random.Random(0)))
    assert game.returns() == (1.0,)


@pytest.mark.parametrize("text", PLANTED)
def test_every_planted_task_is_refused_with_its_reason(text):
    with pytest.raises(Refused, match=PLANTED[text]):
        admit_program_task(text)


def test_a_solver_that_looks_up_what_it_is_shown_earns_nothing():
    for seed in range(20):
        game = make_game("programs")
        game.reset(seed)
        tests = [tuple(map(int, line.split(" -> "))) for line in game.observe(0).splitlines()[:-1]]
        cheat = "drop 0"
        for number, result in tests:
            cheat = f"dup {number} = if drop {result} else {cheat} end"
        assert passes(cheat, tuple(tests))
        game.apply(cheat)
        assert game.returns() == (0.0,)
