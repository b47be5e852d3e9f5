"""Whole runs with rules of selection: what is left out, what is kept for later, and where a person reads it."""

import json

import pytest

from league.cli.dispatch import main
from league.population.storage.sampled_matches import load_samples, sample_files

SMALL = """
iterations = 3
snapshot_every = 3
threads = 1
alarms.stop = []
model = {hidden_size = 16, layers = 1, heads = 2, kv_heads = 1, intermediate_size = 32, vocabulary = 300}
cold_start = {steps = 60, matches = 40}
evaluation = {matches = 0, anchors = [], exact = false}
matchmaking = {self_play = 1.0, fictitious = 0.0, group_size = 4}
credit.rule = "grpo"
"""
REFUSED = """
games.kuhn_poker.matches = 16
roles = {reply = "free", on_illegal = "retry", retries = 1, max_reply_tokens = 4}
selection.rules = ["refused", "eligible"]
"""
SUCCESSES = """
games."sums(digits=1,base=2)".matches = 16
starts = {rule = "uniform", size = 4}
objective.truncate = 2.0
selection = {rules = ["successes", "spread"], spread = {share = 0.5}}
"""


def train(tmp_path, monkeypatch, settings, *arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(SMALL + settings)
    assert main(["train", "own.toml", "--run-dir", "run", *arguments]) == 0
    return [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize("processes", ["none", "each"])
def test_refused_turns_are_told_by_role_and_turn(tmp_path, monkeypatch, capsys, processes):
    lines = train(tmp_path, monkeypatch, REFUSED, "--set", f"async_learners.processes={processes}")[1:]
    refused = [line["kuhn_poker/left_out/first/refused"] for line in lines]
    assert all(0.0 < share <= 1.0 for share in refused)
    assert all(line["kuhn_poker/left_out/first"] >= share for line, share in zip(lines, refused, strict=True))
    [path] = sample_files(tmp_path / "run")
    for sample in load_samples(path):
        for turn, reason in zip(sample.episode.turns, sample.left_out[0], strict=True):
            assert reason.startswith("refused: ") == (turn.action is None)
    capsys.readouterr()
    assert main(["replay", "run", "--match", str(sample.episode.request.index)]) == 0
    assert "left out of the update (refused: The reply was refused" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.thorough
def test_successes_are_saved_with_the_run_and_go_on(tmp_path, monkeypatch):
    lines = train(tmp_path, monkeypatch, SUCCESSES)
    assert all("sums(digits=1,base=2)/left_out/solver/spread" in line for line in lines[1:])
    saved = [path.read_text() for path in (tmp_path / "run").rglob("*.json")]
    assert any('"selection/successes":{"iteration":3' in text for text in saved)
