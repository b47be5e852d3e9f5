"""Figures are drawn alongside the run, in a separate process: the run only says what they show. A thread hands orders
to that process and takes the pictures, so the run neither waits for a figure nor fails because of one. (Drawing in the
thread would slow the run, as matplotlib holds the interpreter's lock.) Snapshots are drawn in their order, and each
figure shows the data of its own snapshot. Where drawing them all would take more than a ``share`` of the time, it
pauses after a snapshot and goes on with each figure's newest data; those of the end are always drawn. The process
starts with the first order, at the lowest priority; only figures still missing at the end of the run are drawn at the
run's priority.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from league.training.board.comparison import spread
from league.training.board.figures.canvas import Drawing, pixels
from league.training.board.painting import Order, Picture

LOWEST_PRIORITY = 19
MOST_STARTS = 8  # of the process, before figures are given up
MOST_WAITING = 64  # snapshots whose figures are still to be drawn: of more, evenly spaced ones are kept
LONGEST = 600.0  # seconds that a run waits for its last figures
TYPICAL = 2.0  # seconds of computing for a snapshot's figures, before any was drawn

# The modules are found where this process finds them.
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from league.training.board.painting import main
main(*map(int, sys.argv[2:]))
"""


class Painter:
    """Draws snapshots' figures; its thread gives ``deliver`` each picture, and ``warn`` a sentence on what fails.

    ``share`` of the time may be spent drawing; 1: every snapshot is drawn.
    """

    def __init__(self, deliver: Callable[[Picture], None], warn: Callable[[str], None], share: float = 1.0) -> None:
        self._deliver, self._warn = deliver, warn
        self._share, self._paused_until = share, 0.0  # of ``time.monotonic``
        self._changed = threading.Condition()
        self._waiting: list[list[Order]] = []  # a snapshot each
        self._is_drawing, self._is_closed = False, False
        self._deadline: float | None = None  # of ``time.monotonic``, from ``finish`` on
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._niceness, self._starts = LOWEST_PRIORITY, 0
        self._complained = set[str]()  # the names of figures that cannot be drawn; "" if none can
        self._seconds = TYPICAL  # of computing for the last snapshot

    def draw(self, iteration: int, drawings: Mapping[str, Callable[[], Drawing]]) -> None:
        """Have a snapshot's figures drawn, by name. They are made now, from data that may change afterwards."""
        orders = []
        for name, make in drawings.items():
            try:
                orders.append(Order(name, iteration, _packed(make())))
            except Exception as error:  # noqa: BLE001  # whatever a figure raises is no reason to lose a run
                self._complain(name, f"{type(error).__name__}: {error}")
        with self._changed:
            self._waiting.append(orders)
            if len(self._waiting) > MOST_WAITING:
                self._thin(MOST_WAITING // 2)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="painter", daemon=True)
            self._thread.start()

    def finish(self, patience: float) -> None:
        """Wait until what waits is drawn: of more snapshots than fit into ``patience`` seconds, evenly spaced ones.

        The last one is always among them, and may take as long again. With a share below 1 it is the only one.
        """
        with self._changed:
            self._deadline = time.monotonic() + patience
            self._changed.notify_all()
            self._changed.wait_for(lambda: not (self._waiting or self._is_drawing), min(2 * patience, LONGEST))

    def close(self) -> None:
        """End the process, whatever is left to draw."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if (process := self._process) is not None:
            process.kill()
        if self._thread is not None:
            self._thread.join(1.0)

    def _work(self) -> None:
        """Draw until closed, or until the process has ended too often."""
        try:
            while (orders := self._next()) is not None:
                seconds = [self._paint(order) for order in orders]
                self._seconds = sum(seconds) or self._seconds
                self._paused_until = time.monotonic() + self._seconds * (1.0 / self._share - 1.0)
        except (OSError, ValueError) as error:  # such as a full disk, of which the run's own log complains too
            self._complain("", str(error))
        with self._changed:
            self._waiting, self._is_drawing, self._is_closed = [], False, True
            self._changed.notify_all()
        self._end_process()

    def _next(self) -> list[Order] | None:
        """Wait for the next snapshot; None once closed."""
        with self._changed:
            self._is_drawing = False
            self._changed.notify_all()
            while not (self._is_closed or (self._waiting and (pause := self._pause()) <= 0.0)):
                self._changed.wait(pause if self._waiting else None)
            if self._is_closed:
                return None
            if self._share < 1.0:  # one snapshot's, and figures that it no longer has
                self._waiting = [[*{order.name: order for orders in self._waiting for order in orders}.values()]]
            elif self._deadline is not None:
                left = max(self._deadline - time.monotonic(), 0.0)
                self._thin(1 + int(min(left / self._seconds, MOST_WAITING)))
            self._is_drawing = True
            return self._waiting.pop(0)

    def _pause(self) -> float:
        """Return the seconds until drawing may go on: none at the end of the run."""
        return self._paused_until - time.monotonic() if self._deadline is None else 0.0

    def _thin(self, most: int) -> None:
        """Keep this many of the waiting snapshots, evenly spaced, including the last."""
        self._waiting = [self._waiting[index] for index in spread(len(self._waiting), most)]

    def _paint(self, order: Order) -> float:
        """Have a figure drawn, deliver it, and return the seconds that it took; skip one that ends the process."""
        for _ in range(2):  # the process may have ended for another reason
            if self._is_closed or order.name in self._complained or (process := self._running()) is None:
                return 0.0
            if (picture := _exchange(process, order)) is not None:
                break
            self._end_process()
        else:
            picture = Picture(*order[:2], b"", b"", "it crashes the process that draws it")
        if picture.error:
            self._complain(order.name, picture.error)
        elif not self._is_closed:
            self._deliver(picture)
        return picture.seconds

    def _running(self) -> subprocess.Popen[bytes] | None:
        """Return the process, started again where it has ended or is late; None if that has happened too often."""
        is_late = self._deadline is not None and (bool(self._waiting) or time.monotonic() > self._deadline)
        if is_late and self._niceness:
            self._niceness = 0
            self._end_process()
        if self._process is None and self._starts < MOST_STARTS:
            self._starts += 1
            words = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), str(os.getpid()), str(self._niceness)]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        elif self._process is None:
            self._complain("", f"the process that draws them ended {MOST_STARTS} times")
        return self._process

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _complain(self, name: str, error: str) -> None:
        """Say once what is not drawn."""
        if name not in self._complained:
            self._complained.add(name)
            what = f"The figure {name} is not drawn" if name else "Figures are no longer drawn"
            self._warn(f"{what} ({' '.join(error.split())}). The run continues, and its curves are complete.")


def _exchange(process: subprocess.Popen[bytes], order: Order) -> Picture | None:
    """Send an order and wait for its picture; return None if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump(tuple(order), process.stdin)
        process.stdin.flush()
        return Picture(*pickle.load(process.stdout))  # noqa: S301  # from the process that this one started
    except (OSError, EOFError, pickle.UnpicklingError):
        return None


def _packed(drawing: Drawing) -> bytes:
    """Return a drawing for another process; what only this one knows is drawn here."""
    of_the_script = getattr(getattr(drawing, "func", drawing), "__module__", "") == "__main__"
    try:
        return pickle.dumps(pixels(drawing) if of_the_script else drawing)
    except (pickle.PicklingError, AttributeError, TypeError):  # such as a function within a function
        return pickle.dumps(pixels(drawing))
