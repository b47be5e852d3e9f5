"""Processes that end with the one that started them, however that ends, kill -9 included."""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

_PR_SET_PDEATHSIG = 1  # of Linux's prctl(2): the signal that a process gets when the thread that made it ends


def run_with_parent(module: str, function: str, *arguments: Any) -> None:
    """Call ``module.function(*arguments)`` in a process that ends with its parent.

    As the target of a ``multiprocessing.Process`` this is loaded in a moment: what ends the process is in force before
    the module, which may import torch for many seconds, is imported.
    """
    end_with_parent()
    getattr(importlib.import_module(module), function)(*arguments)


def end_with_parent() -> None:
    """Let this process, which ``multiprocessing`` started, be killed as soon as its parent has ended.

    On Linux the system does it, at once, wherever this process is: in an import, or stopped. The system means the
    thread that started it, so it is asked only where that was the parent's main thread. Elsewhere, and besides, a
    thread waits for the parent's end.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux" and os.environ.get(_MAIN_THREAD) == str(parent.pid):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it ended before that
            os._exit(1)
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()
