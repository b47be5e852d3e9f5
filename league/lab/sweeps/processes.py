"""Processes of this machine, one for each run that a sweep trains side by side.

They are spawned, not forked, so that none inherits memory from another run or the user's program.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from arena.cluster.interface import PendingCall, WorkerDied, WorkerId, WorkerSpec
from games.common.errors import UsageError
from league.population.players.machine import cores

_CONTEXT = multiprocessing.get_context("spawn")
THREADS = "OMP_NUM_THREADS"


class LocalProcesses:
    """Starts processes that share this machine's cores; a context manager.

    Each has as many threads as there are cores for each of ``most``, unless OMP_NUM_THREADS says otherwise.
    """

    def __init__(self, most: int) -> None:
        self._threads, self._set_here = max(1, cores() // most), False

    def __enter__(self) -> Self:
        self._set_here = THREADS not in os.environ
        os.environ.setdefault(THREADS, str(self._threads))
        return self

    def __exit__(self, *_: object) -> None:
        if self._set_here:
            del os.environ[THREADS]

    def start(self, spec: WorkerSpec, number: int, restarts: int) -> LocalProcess:
        """Start a process, which makes the object of ``spec`` when it is first called."""
        return LocalProcess(spec, WorkerId(spec.kind, number, restarts))

    def wait(self, calls: Sequence[PendingCall], timeout: float | None) -> list[PendingCall]:
        """Wait until a call is done, or its process has ended; return all such handles."""
        ready = wait([call.ref.connection for call in calls], timeout)
        return [call for call in calls if call.ref.connection in ready]

    def get(self, call: PendingCall) -> Any:
        """Wait for a call and return its result. Raises WorkerDied, UsageError, or RuntimeError with the traceback."""
        process: LocalProcess = call.ref
        return process.result()


class LocalProcess:
    """A process that is called once."""

    def __init__(self, spec: WorkerSpec, worker_id: WorkerId) -> None:
        self._worker_id = worker_id
        self.connection, child_end = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(child_end, spec.make, spec.arguments))
        self._process.start()
        child_end.close()

    @property
    def worker_id(self) -> WorkerId:
        """Its identity."""
        return self._worker_id

    @property
    def handle(self) -> LocalProcess:
        """Itself."""
        return self

    def call(self, method: str, *arguments: object) -> PendingCall:
        """Start a method."""
        self.connection.send((method, arguments))
        return PendingCall(self, self._worker_id)

    def result(self) -> Any:
        """Wait for the method that was called; see ``LocalProcesses.get``."""
        try:
            result, refused, failure = self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise WorkerDied(self._worker_id, f"exit status {self._process.exitcode}") from None
        if refused:
            raise UsageError(refused)
        if failure:
            raise RuntimeError(f"A process training a run failed:\n{failure}")
        return result

    def stop(self) -> None:
        """Kill the process, if it still runs."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, make: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Carry out one call; end with the parent, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    method, call_arguments = connection.recv()
    result, refused, failure = None, "", ""
    try:
        result = getattr(make(*arguments), method)(*call_arguments)
    except UsageError as error:
        refused = str(error)
    except Exception:  # noqa: BLE001  # the parent raises it
        failure = traceback.format_exc()
    connection.send((result, refused, failure))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM if not hasattr(signal, "SIGKILL") else signal.SIGKILL)
