"""Child processes that end when their parent does, even if it is killed with kill -9."""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

GRACE = 10  # seconds between a signal to end and one that cannot be refused
# The pipe to a process's standard input reaches its end once the process at the other side has ended.
_WATCH = 'read line; grace=$1; shift; kill -TERM "$@"; sleep "$grace"; kill -KILL "$@"'
_PR_SET_PDEATHSIG = 1  # of Linux's prctl(2): the signal that a process gets when the thread that made it ends


def child_process(context: BaseContext, module: str, function: str, *arguments: Any) -> BaseProcess:
    """Return a process, not yet started, that calls ``module.function(*arguments)`` and ends with this one.

    The module is imported only there, when what ends the process is in force already: it may import torch for many
    seconds. ``arguments`` must not need it either. Start the process from the main thread.
    """
    main_thread = threading.current_thread() is threading.main_thread()
    arguments = (main_thread, module, function, *arguments)
    return context.Process(target=_run, args=arguments, daemon=True)  # type: ignore[attr-defined,no-any-return]


def _run(main_thread: bool, module: str, function: str, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its children in its own way
    end_with_parent(by_signal=main_thread)
    getattr(importlib.import_module(module), function)(*arguments)


def end_with_parent(*, by_signal: bool) -> None:
    """End this process, which multiprocessing has started, when its parent has ended, however that ends.

    ``by_signal``: the system does it, even to a process that is stopped; but also when the parent's thread that started
    it ends.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        if by_signal and sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent.pid:  # it ended before that
                os._exit(1)
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def end_with_this(pids: Iterable[int]) -> subprocess.Popen[bytes]:
    """Start a small process that ends others once this one has ended, however that ends, and return it.

    It is for processes that a library has started, which run none of our code. They have ``GRACE`` seconds to end in
    their own way. Kill what is returned before they are ended otherwise.
    """
    words = ["sh", "-c", _WATCH, "sh", str(GRACE), *map(str, pids)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


def _exit_after(parent: BaseProcess) -> None:
    """Exit as soon as the parent has ended: unfinished work will be done again."""
    parent.join()
    os._exit(1)
