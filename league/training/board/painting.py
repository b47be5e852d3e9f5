"""What runs in the painter's process (``league.training.board.painter``): it draws figures and hands back pictures.

It imports neither torch nor the run's code, so that it starts in a second and takes little memory. It ends when its
input does, or when the process that started it has ended. There is one order at a time: the next one is sent once the
picture of the last has been read.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import select
import signal
import sys
import time
from io import BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np

from league.training.board.event_file import image_record
from league.training.board.figures.canvas import Pixels, pixels

LETTERS = 200  # of an error
# Objects made between two searches for garbage: a figure is thousands of them, all alive until it is drawn.
OBJECTS_BETWEEN_SEARCHES = 20_000
WAKES_AFTER = 2.0  # seconds until an idle painter looks whether its parent is still there

PR_SET_PDEATHSIG = 1  # Linux's prctl(2): killed with the run's thread that ordered figures, also while it is stopped


class Order(NamedTuple):
    """A figure to draw."""

    name: str
    iteration: int
    drawing: bytes  # a pickled ``Drawing``, or the pickled pixels of one


class Picture(NamedTuple):
    """A figure that was drawn, or why it could not be."""

    name: str
    iteration: int
    png: bytes
    record: bytes  # of TensorBoard's event file
    error: str = ""
    seconds: float = 0.0  # of computing


def main(parent: int, niceness: int) -> None:
    """Draw what a process orders through standard input, one figure after another, and write to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which waits for figures in its own way
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(niceness)
    # What a figure prints must not come between the pictures.
    orders, pictures = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    is_first = True
    while _is_ordered(parent) and (order := _read(orders)) is not None:
        pickle.dump(paint(order), pictures)
        pictures.flush()
        if is_first:  # matplotlib is imported now, and stays: no search looks through it again
            gc.freeze()
            is_first = False


def paint(order: Order) -> Picture:
    """Return an ordered figure as a picture."""
    from PIL import Image

    begun = time.process_time()
    try:
        drawing = pickle.loads(order.drawing)  # noqa: S301  # the run pickled it
        drawn: Pixels = drawing if isinstance(drawing, np.ndarray) else pixels(drawing)
        encoded = BytesIO()
        Image.fromarray(drawn).save(encoded, "PNG", compress_level=3)
    except Exception as error:  # noqa: BLE001  # whatever a figure raises costs that figure alone
        words = " ".join(str(error).split())[:LETTERS]
        return Picture(order.name, order.iteration, b"", b"", f"{type(error).__name__}: {words}")
    png, (height, width, _) = encoded.getvalue(), drawn.shape
    record = image_record(order.name, png, height, width, order.iteration)
    return Picture(order.name, order.iteration, png, record, "", time.process_time() - begun)


def _is_ordered(parent: int) -> bool:
    """Wait for an order or the input's end; return False once the parent has ended.

    Its end alone does not end the input while a process that it has forked still holds the pipe.
    """
    while not select.select([0], [], [], WAKES_AFTER)[0]:
        if os.getppid() != parent:
            return False
    return True


def _read(orders: BinaryIO) -> Order | None:
    """Return the next order; None at the input's end."""
    try:
        return Order(*pickle.load(orders))  # noqa: S301  # from the run
    except EOFError:
        return None
