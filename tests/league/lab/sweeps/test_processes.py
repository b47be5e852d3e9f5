"""Processes of this machine: what they return, what they refuse, how they die, and that they end with their parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.processes.swept import Answers
from support.source import ROOT

from arena.cluster.interface import WorkerDied, WorkerSpec
from games.common.errors import UsageError
from league.lab.sweeps.processes import THREADS, LocalProcesses

SPEC = WorkerSpec("run", Answers, (7,), 1.0)


def test_calls_return_or_raise_and_a_death_is_told(monkeypatch):
    monkeypatch.delenv(THREADS, raising=False)
    with LocalProcesses(most=1000) as processes:
        handles = [processes.start(SPEC, number, 0) for number in range(4)]
        calls = [h.call(method) for h, method in zip(handles, ("threads", "refuses", "breaks", "dies"), strict=True)]
        waiting = list(calls)
        while waiting:
            done = processes.wait(waiting, None)
            waiting = [call for call in waiting if call not in done]
        assert processes.get(calls[0]) == (7, "1")  # at least one thread each
        with pytest.raises(UsageError, match="not this way"):
            processes.get(calls[1])
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            processes.get(calls[2])
        with pytest.raises(WorkerDied, match=r"run 3 died \(exit status 3\)"):
            processes.get(calls[3])
        for handle in handles:
            handle.stop()
    assert THREADS not in os.environ


def test_a_process_ends_with_its_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\n"
        "from support.processes.swept import Answers\n"
        "from arena.cluster.interface import WorkerSpec\n"
        "from league.lab.sweeps.processes import LocalProcesses\n"
        "if __name__ == '__main__':\n"
        "    with LocalProcesses(1) as processes:\n"
        "        handle = processes.start(WorkerSpec('run', Answers, (7,), 1.0), 0, 0)\n"
        f"        handle.call('sleeps', {str(tmp_path / 'pid')!r})\n"
        "        time.sleep(60)\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    parent = subprocess.Popen([sys.executable, str(script)], env=environment)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    child = int((tmp_path / "pid").read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not alive(child))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"  # nobody waits for it here


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
