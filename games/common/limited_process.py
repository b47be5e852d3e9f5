"""A process for work that somebody else's file decides: it answers lines with lines, within limits, or is ended.

It is restarted after that, and ends with the one that started it, since its standard input then does.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

STREAMS = 3  # standard input, output and errors: as open files, no other can be opened


class LimitedProcess:
    """The process of a command that calls ``serve``, from the first line on. ``seconds``: of the clock, for one answer.

    Any thread may ask. A fork of the process that started it starts its own.
    """

    def __init__(self, command: Sequence[str], seconds: float, env: Mapping[str, str] = {}) -> None:
        self._command, self._seconds, self._env = list(command), seconds, dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = 0
        self._lock = threading.Lock()

    def ask(self, line: bytes) -> bytes | None:
        """Return the answer to a line, both without their ends.

        None if the process ended, or did not answer in time: then it is ended, and the next line starts another.
        """
        with self._lock:
            if self._process is None or self._parent != os.getpid():
                self._process, self._parent = self._start(), os.getpid()
            answer = self._answer(self._process, line)
            if answer is None:
                self.close()
            return answer

    def _start(self) -> subprocess.Popen[bytes]:
        atexit.unregister(self.close)
        atexit.register(self.close)
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            close_fds=True,
            env=self._env,
        )

    def _answer(self, process: subprocess.Popen[bytes], line: bytes) -> bytes | None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        ready, _, _ = select.select([process.stdout], [], [], self._seconds)
        answer = process.stdout.readline() if ready else b""
        return answer[:-1] if answer.endswith(b"\n") else None

    def close(self) -> None:
        """End the process, unless it is another one's."""
        process, self._process = self._process, None
        if process is None or self._parent != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what was still to be written
                    pipe.close()


def serve(answer: Callable[[bytes], bytes], seconds: float, memory: int, files: int = STREAMS) -> None:
    """Be such a process: answer each line of standard input with a line, until it ends.

    ``seconds`` of the processor's time for each, ``memory`` bytes of address space for all, ``files`` open at a time.
    """
    import resource  # imported here because only this process, on POSIX systems, needs it
    import signal
    import sys

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started it
    limit_this_process(memory, files)
    for line in sys.stdin.buffer:
        most = int(time.process_time() + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        sys.stdout.buffer.write(answer(line) + b"\n")
        sys.stdout.buffer.flush()


def limit_this_process(memory: int, files: int = STREAMS) -> None:
    """Let this process take no more bytes of address space, open no more than ``files`` and write into none."""
    import resource

    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: files,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
