"""A short real run must learn: the whole path from the command line to the exact measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from league.board import read_metrics

CONFIG = """
iterations = 50
snapshot_every = 25
threads = 1
[games.kuhn_poker]
matches = 1024
entropy = 0.15
entropy_end = 0.05
[objective]
clip_low = 0.9
clip_high = 9.0
kl_old = 2.0
[learner]
learning_rate = 1e-3
[evaluation]
matches = 16
"""


def test_a_minute_of_self_play_brings_kuhn_poker_far_below_random_play(tmp_path: Path) -> None:
    """Uniform play has exploitability 11/24 = 0.458; a policy that always plays one way has 0.5 and more."""
    config, run = tmp_path / "short.toml", tmp_path / "run"
    config.write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "league.cli", "train", str(config), "--run-dir", str(run), "--seed", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    measured = [line for line in read_metrics(run) if "kuhn_poker/exploitability" in line]
    before, after = (measured[place]["kuhn_poker/exploitability"] for place in (0, -1))
    assert after < 0.2
    assert after < before / 2
    assert all(line["illegal_rate"] == 0.0 for line in measured[1:])
    assert all(line["gap"] < 1e-4 for line in measured[1:])
