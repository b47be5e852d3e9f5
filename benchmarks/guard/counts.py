"""What the guard counts: the same in every run, however busy the machine is and whatever its processor.

A count depends on the code, and a little on the versions of Python and of the libraries.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

from benchmarks.report.provenance import ROOT

Counts = dict[str, int]

# The modules are counted at the end of the process, however it ends.
_MODULES = """
import atexit, runpy, sys
atexit.register(lambda: print(len(sys.modules), file=sys.stderr))
sys.argv = ["league", *sys.argv[1:]]
runpy.run_module("league", run_name="__main__", alter_sys=True)
"""


def of_a_run(work: Callable[[], object]) -> Counts:
    """Return a run's function calls, of Python and of C, and the most memory that Python's objects had at once, KiB."""
    return {"calls": _calls(work), "memory": _memory(work)}


def of_a_command(*words: str) -> Counts:
    """Return how many modules ``league`` with these words has imported when it ends."""
    command = [sys.executable, "-c", _MODULES, *words]
    ended = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return {"modules": int(ended.stderr.split()[-1])}


def _calls(work: Callable[[], object]) -> int:
    calls = 0

    def see(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def _memory(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] // 1024
    finally:
        tracemalloc.stop()
