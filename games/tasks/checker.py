"""Runs players' programs in a separate process, with limits on time, memory, files and processes.

The interpreter's own limits end every program in milliseconds, and equal programs have equal outcomes on every machine;
the process is there for what nobody has thought of. It ends with the one that started it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

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
    with _LOCK:
        return _process().ask(program, numbers)


class Checker:
    """The checking process; it is restarted after a program has ended it."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds, self.pid = seconds, os.getpid()
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _START, str(_ROOT)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, close_fds=True, env={}
        )

    def ask(self, program: str, numbers: Sequence[int]) -> tuple[Checked, ...]:
        """Return what a program makes of each number. A process that does not answer in time is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([program, list(numbers)]).encode() + b"\n")
            self._process.stdin.flush()
            ready, _, _ = select.select([self._process.stdout], [], [], self._seconds)
            line = self._process.stdout.readline() if ready else b""
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            self.close()
            self._start()
            return (Checked(None, "it ended the process that checks it"),) * len(numbers)
        return tuple([Checked(number, fault) for number, fault in json.loads(line)])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what was still to be written
                    pipe.close()


def serve() -> None:
    """Be the checking process: answer each line of standard input, a program and numbers, with a line."""
    import resource  # imported here because only this process, on POSIX systems, needs it

    _limit_this_process()
    for line in sys.stdin.buffer:
        program, numbers = json.loads(line)
        seconds = int(time.process_time() + SECONDS) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        answer = [_outcome(program, number) for number in numbers]
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _limit_this_process() -> None:
    import resource

    limits = {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 3,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    sys.setrecursionlimit(200)


def _outcome(program: str, number: int) -> Checked:
    try:
        return Checked(stack_machine.run(program, number))
    except stack_machine.ProgramFault as fault:
        return Checked(None, str(fault))


_LOCK = threading.Lock()
_CHECKERS: list[Checker] = []  # one at most


def _process() -> Checker:
    """Return this process's checker: one that was inherited by a fork belongs to the parent."""
    if not _CHECKERS or _CHECKERS[0].pid != os.getpid():
        _CHECKERS[:] = [Checker()]
        atexit.register(_CHECKERS[0].close)
    return _CHECKERS[0]
