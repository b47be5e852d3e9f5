"""No child outlives its parent, whatever ends it and whatever the child is doing."""

import os
import signal
import subprocess
import sys
import time

import pytest
from support.processes.family import survivors
from support.source import ROOT

PARENT = """
import multiprocessing, os, signal, sys, time
from games.common.child_processes import child_process
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    children = [child_process(context, "support.processes.family", "stay", f"{sys.argv[2]}/{i}") for i in range(4)]
    for child in children:
        child.start()
    print(*[child.pid for child in children], flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("settled", [True, False], ids=["asleep", "starting"])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process that is stopped")
def test_children_end_with_a_parent_that_is_killed(tmp_path, start, settled):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen(
        [sys.executable, script, start, tmp_path], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        children = [int(word) for word in process.stdout.readline().split()]
        assert len(children) == 4
        if settled:
            while not all((tmp_path / str(number)).exists() for number in range(4)):
                time.sleep(0.1)
            os.kill(children[1], signal.SIGSTOP)  # hangs: it cannot look whether its parent is there
        process.kill()
    assert survivors(children) == []
