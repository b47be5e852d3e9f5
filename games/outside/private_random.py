"""Gives each match its own global generators while a library draws from them, and leaves the process's alone."""

from __future__ import annotations

import random
import threading
from types import TracebackType

import numpy as np

_LOCK = threading.RLock()  # the generators are the process's, so one library call at a time


class PrivateRandom:
    """While entered, ``random`` and ``numpy.random`` use this object's state, and afterwards their own again."""

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        numpys = np.random.RandomState(seed % 2**32)
        self._numpy = numpys.get_state()

    def copy(self) -> PrivateRandom:
        """Return another that continues from the same state."""
        twin = PrivateRandom.__new__(PrivateRandom)
        twin._python, twin._numpy = self._python, self._numpy
        return twin

    def __enter__(self) -> None:
        """Put this object's state in place of the process's."""
        _LOCK.acquire()
        self._others = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep the own state, and restore the process's."""
        self._python, self._numpy = random.getstate(), np.random.get_state()
        random.setstate(self._others[0])
        np.random.set_state(self._others[1])
        _LOCK.release()
