"""The study of what waiting costs: valid runs, the use of places by hand, and an engine whose replies are late."""

import json
import subprocess
import sys

import pytest
from support.source import ROOT

from benchmarks.studies.flow import MODES, TIME, USE, reached, settings, use_of

# In a process of its own, because the plugin adds an engine for good.
SCRIPT = """
import random, sys, time
from pathlib import Path
from types import SimpleNamespace
from games.common import plugins
plugins.allow(["benchmarks.studies.slow_engine"])
from league.config.load import load

for folder in sys.argv[1:]:
    turns, stream = (load(str(Path(folder, f"{mode}.toml"))) for mode in ("turns", "stream"))
    assert stream.async_learners.streams and not turns.async_learners.streams
    same = {"async_learners": turns.async_learners, "objective": turns.objective}
    assert stream.model_copy(update=same) == turns

import benchmarks.studies.slow_engine as slow
reply = object()
lm = SimpleNamespace(sample=lambda requests: [reply] * len(requests), tokens=7, close=lambda: None)
engine = slow.SlowLM(slow.Settings(mean=0.05, spread=0.0), lm)
started = time.perf_counter()
futures = [engine.submit(SimpleNamespace(rng=random.Random(n))) for n in range(40)]
assert not any(future.done() for future in futures)
assert [future.result() for future in futures] == [reply] * 40
assert 0.05 <= time.perf_counter() - started < 1.9  # two seconds one after another
assert engine.tokens == 7
engine.close()
"""


@pytest.mark.thorough
def test_the_runs_differ_in_what_waits_alone_and_a_reply_comes_late_and_is_the_engines(tmp_path):
    for name, shape in (("use", USE), ("time", TIME)):
        (tmp_path / name).mkdir()
        for mode in MODES:
            (tmp_path / name / f"{mode}.toml").write_text(settings(mode, tmp_path, shape))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "use"), str(tmp_path / "time")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_use_by_hand(tmp_path):
    """Two workers with two places each, ten seconds: 10 + 5 of the first, 6 of the second, of 40."""
    (tmp_path / "1.jsonl").write_text("[100.0, 110.0]\n[102.0, 107.0]\n")
    (tmp_path / "2.jsonl").write_text("[101.0, 107.0]\n")
    (tmp_path / "3.jsonl").write_text("")  # a process that wrote no reply
    assert use_of(tmp_path, 2) == {"figure": pytest.approx(21 / 40), "seconds": 10.0}


def test_time_is_counted_until_the_mixture_is_hard_to_exploit(tmp_path):
    lines = [(0, 9.0, 0.6), (1, 2.0, None), (2, 3.0, 0.06), (3, 4.0, 0.05), (4, 5.0, 0.01)]
    text = ""
    for iteration, seconds, value in lines:
        told = {"kuhn_poker/mixture_exploitability": value} if value is not None else {}
        text += json.dumps({"iteration": iteration, "seconds": seconds, **told}) + "\n"
    (tmp_path / "metrics.jsonl").write_text(text)
    assert reached(tmp_path) == {"figure": 9.0, "iterations": 3}
