"""A process with a vLLM engine that is killed with -9 takes the engine's processes with it."""

import os
import subprocess
import sys

from support.processes.family import descendants, survivors
from support.source import ROOT

PARENT = """
import os, sys, time
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

def main():
    from support.matches.kuhn import kuhn_matches, kuhn_pocket, played, roles_for
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_shape import VllmShape
    lm = kuhn_pocket(hidden_size=128)
    engine = VllmLM(None, lm, VllmShape(adapters=False, max_model_len=1024))
    engine.add("live", lm)
    played(engine, kuhn_matches(1, ("live", "live")), 1, roles_for())
    print("ready", flush=True)
    time.sleep(1000)

if __name__ == "__main__":
    main()
"""


def test_no_process_of_vllm_outlives_the_one_that_started_it(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert any(line == "ready\n" for line in process.stdout)
            family = descendants(process.pid)
        finally:
            process.kill()
    assert family
    assert survivors(family) == []
