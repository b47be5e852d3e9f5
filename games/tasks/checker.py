"""Runs players' programs in a separate process, with limits on time, memory, files and processes.

The interpreter's own limits end every program in milliseconds, and equal programs have equal outcomes on every machine;
the process is there for what nobody has thought of. It ends with the one that started it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from games.common import limited_process
from games.common.limited_process import LimitedProcess
from games.tasks import stack_machine

SECONDS = 60.0  # for one program on all its numbers
MEMORY = 512 * 2**20  # bytes of address space
_ROOT = Path(__file__).parents[2]  # where the package games lies
_START = "import sys; sys.path.append(sys.argv[1]); from games.tasks.checker import serve; serve()"


class Checked(NamedTuple):
    """What a program made of one number: another one, or a fault as a sentence without its end."""

    number: int | None
    fault: str = ""


@lru_cache(maxsize=4096)
def outcomes(program: str, numbers: tuple[int, ...]) -> tuple[Checked, ...]:
    """Return what a program makes of each number, worked out in the checking process."""
    return _CHECKER.ask(program, numbers)


class Checker:
    """The checking process; another one is started after a program has ended it."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.process = LimitedProcess([sys.executable, "-I", "-S", "-c", _START, str(_ROOT)], seconds)

    def ask(self, program: str, numbers: Sequence[int]) -> tuple[Checked, ...]:
        """Return what a program makes of each number. A process that does not answer in time is ended."""
        line = self.process.ask(json.dumps([program, list(numbers)]).encode())
        if line is None:
            return (Checked(None, "it ended the process that checks it"),) * len(numbers)
        return tuple([Checked(number, fault) for number, fault in json.loads(line)])


_CHECKER = Checker()


def serve() -> None:
    """Be the checking process: answer each line of standard input, a program and numbers, with a line."""
    sys.setrecursionlimit(200)
    limited_process.serve(_answer, SECONDS, MEMORY)


def _answer(line: bytes) -> bytes:
    program, numbers = json.loads(line)
    return json.dumps([_outcome(program, number) for number in numbers]).encode()


def _outcome(program: str, number: int) -> Checked:
    try:
        return Checked(stack_machine.run(program, number))
    except stack_machine.ProgramFault as fault:
        return Checked(None, str(fault))
