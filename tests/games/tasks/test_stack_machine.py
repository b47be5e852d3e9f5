"""The stack language: what programs leave, worked by hand; every program ends; the process that checks is limited."""

import os
import random
import signal
import subprocess
import sys

import pytest

from games.tasks import checker
from games.tasks.checker import Checked, Checker, outcomes
from games.tasks.stack_machine import WORDS, ProgramFault, run


@pytest.mark.parametrize(
    ("program", "number", "left"),
    [
        ("", 7, 7),
        ("dup +", 7, 14),
        ("3 *", -4, -12),
        ("2 /", -3, -2),  # rounds down
        ("2 %", -3, 1),
        ("5 swap -", 7, -2),
        ("3 over + *", 4, 28),
        ("dup 0 < if -1 * end", -8, 8),  # the absolute value
        ("dup 5 > if drop 1 else 2 * end", 6, 1),
        ("dup 5 > if drop 1 else 2 * end", 5, 10),
        ("1 swap times 2 * end", 10, 1024),
        ("0 swap times 0 times end 1 + end", 3, 3),
        ("5 =", 5, 1),
    ],
)
def test_programs_leave_what_they_should(program, number, left):
    assert run(program, number) == left
    assert outcomes(program, (number,)) == (Checked(left),)


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("+", "empty stack"),
        ("dup", "leaves 2 numbers"),
        ("drop", "leaves 0 numbers"),
        ("0 /", "divides by 0"),
        ("1000000000 times 1 + end", "more than 10000 steps"),
        ("1000000000 times end", "more than 10000 steps"),
        ("100000 times 100000 times end end", "more than 10000 steps"),
        ("200 times dup end", "more than 128 numbers"),
        ("99 times dup * end", "a number beyond"),
        ("9999999999999", "no word"),
        ("if", "has no end"),
        ("end", "without a beginning"),
        ("times else end", "without an if"),
        ("if else else end", "without an if"),
        ("1 if " * 100 + "end " * 100, "deep"),
        ("1 + " * 1000, "characters"),
        ("__import__('os').system('true')", "no word"),
        ("open('tests')", "no word"),
        ("\u0661 +", "no word"),  # a digit, but not one of ours
    ],
)
def test_what_is_wrong_is_said(program, fault):
    with pytest.raises(ProgramFault, match=fault):
        run(program, 3)
    [outcome] = outcomes(program, (3,))
    assert outcome.number is None
    assert fault in outcome.fault


def left_or_fault(program, number):
    try:
        return run(program, number)
    except ProgramFault as fault:
        return str(fault)


def test_any_words_in_any_order_end_within_the_limits():
    rng, ends = random.Random(1), []
    for _ in range(3000):
        program = " ".join(rng.choices((*WORDS, "0", "3", "1000000000"), k=rng.randint(1, 30)))
        ends.append(left_or_fault(program, rng.randint(-9, 9)))
    assert all(end if isinstance(end, str) else abs(end) <= 10**12 for end in ends)
    assert any(isinstance(end, int) for end in ends)


LIMITED = "from games.tasks import checker; checker.limited_process.limit_this_process(checker.MEMORY)"
CHILD = f"import sys; sys.path.append({str(checker._ROOT)!r}); {LIMITED}"


@pytest.mark.parametrize(
    ("deed", "error"),
    [
        ("bytearray(2**30)", "MemoryError"),
        ("open('/dev/null')", "Too many open files"),
        ("import os; os.write(os.open('/dev/null', os.O_WRONLY), b'')", "Too many open files"),
    ],
)
def test_the_process_that_checks_can_do_nothing_else(deed, error):
    """Even a fault in the interpreter would find no memory and no file."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{CHILD}; {deed}"], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert error in done.stderr


def test_a_process_that_does_not_answer_is_ended_and_started_anew():
    own = Checker(seconds=5.0)
    try:
        assert own.ask("dup +", [1, 2]) == (Checked(2), Checked(4))
        own.process._process.kill()
        [lost] = own.ask("dup +", [3])
        assert lost.number is None
        assert own.ask("dup +", [3]) == (Checked(6),)
        own.process._seconds = 0.2
        os.kill(own.process._process.pid, signal.SIGSTOP)
        [late] = own.ask("dup +", [3])
        assert late.number is None
    finally:
        own.process.close()
