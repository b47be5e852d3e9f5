"""A short real run must learn: the whole path from the command line to the exact measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from league.training.board.metrics_log import read_metrics

TEAM = "lookup_chain(people=6,relations=2)"
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
[optimizer]
learning_rate = 1e-3
[evaluation]
matches = 16
"""


def test_a_minute_of_self_play_brings_kuhn_poker_far_below_random_play(tmp_path: Path) -> None:
    """Uniform play has exploitability 11/24 = 0.458; a policy that always plays one way has 0.5 and more."""
    config, run = tmp_path / "short.toml", tmp_path / "run"
    config.write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "league", "train", str(config), "--run-dir", str(run), "--seed", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    measured = [line for line in read_metrics(run) if "kuhn_poker/exploitability" in line]
    before, after = (measured[place]["kuhn_poker/exploitability"] for place in (0, -1))
    assert after < 0.2
    assert after < before / 2
    assert all(line["illegal_rate"] == 0.0 for line in measured[1:])
    assert all(line["gap"] < 1e-4 for line in measured[1:])


@pytest.mark.slow
def test_two_minutes_of_the_preset_team_teach_planner_and_workers_to_find_more(tmp_path: Path) -> None:
    """Held-out questions pay 0.25 untrained, and 0.44 after these 20 iterations; the optimal script earns 1."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "league", "train", "team", "--run-dir", str(run)]
    command += ["--set", "iterations=20", "--set", "snapshot_every=20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    lines = list(read_metrics(run))
    before, after = (lines[place][f"{TEAM}/held_out_return"] for place in (0, -1))
    assert after > before + 0.12
    assert lines[-1][f"{TEAM}/held_out_return_of_scripted:optimal"] == pytest.approx(1.0)
    updates = {policy: sum(f"{policy}/loss" in line for line in lines) for policy in ("main", "sub")}
    assert updates == {"main": 20, "sub": 10}, "sub learns once for two updates of main"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [111, 112])
def test_self_play_that_settles_leaves_one_snapshot_near_equilibrium(seed: int, tmp_path: Path) -> None:
    """What is asked of Kuhn poker is 0.015, without turning back; seeds 101 and 102 ended at 0.002 and 0.001."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "league", "train", "settle", "--run-dir", str(run), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    measured = [line["kuhn_poker/exploitability"] for line in read_metrics(run) if "kuhn_poker/exploitability" in line]
    quarter = measured[-len(measured) // 4 :]
    assert max(quarter) < 0.015
    assert quarter[-1] < quarter[0] + 0.005
