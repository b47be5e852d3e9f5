"""A whole run that is killed with -9 leaves no process behind, whatever its processes were doing."""

import os
import signal
import sys
import time

import pytest
from support.processes.family import alive, descendants, survivors
from support.processes.runs import TINY, TrainingProcess

# Each with the least number of processes beside the one that plays.
MANY = {
    "learners": (1, ["async_learners.processes=each"]),
    "learners ahead": (
        1,
        ["async_learners.processes=each", "async_learners.max_staleness=2", "objective.truncate=2.0"],
    ),
    "one update by three": (2, ["optimizer.processes=3"]),
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process that is stopped")
@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
@pytest.mark.parametrize(
    "kind", [kind if kind == "learners" else pytest.param(kind, marks=pytest.mark.slow) for kind in MANY]
)
def test_a_killed_run_takes_its_processes_with_it(kind, stopped, tmp_path):
    least, settings = MANY[kind]
    (tmp_path / "tiny.toml").write_text(TINY)
    run = tmp_path / "run"
    options = [word for setting in ("iterations=1000", *settings) for word in ("--set", setting)]
    process = TrainingProcess(tmp_path / "tiny.toml", *options, run_dir=run)
    while process.alive() and not (run / "state/iteration-000001").exists():
        time.sleep(0.02)
    family = descendants(process.pid)
    if stopped:
        os.kill(family[-1], signal.SIGSTOP)  # it hangs, and cannot look whether anybody is there
    os.kill(process.pid, signal.SIGKILL)
    ended = process.end(within=60)
    assert survivors(family) == []
    assert ended.status == -signal.SIGKILL, ended.output
    assert len(family) >= least
    assert not alive(process.pid)
