"""A whole run on a game of free text: imitation of scripts, free replies, an update, snapshots and ratings."""

import json

import pytest

from arena.replays import load_episodes
from league.cli.dispatch import main

RUN = """
iterations = 1
snapshot_every = 1
threads = 1
games."simple_negotiation(goods=2,stock=1,most=2,turns=2)".matches = 8
roles.max_reply_tokens = 16
model = {hidden_size = 16, layers = 1, heads = 2, kv_heads = 1, intermediate_size = 32, vocabulary = 300}
cold_start = {steps = 10, matches = 20, players = ["scripted:good", "random"]}
evaluation = {anchors = ["scripted:good"], matches = 8}
"""
GAME = "simple_negotiation(goods=2,stock=1,most=2,turns=2)"


@pytest.mark.thorough
def test_a_policy_trains_on_what_it_says_in_its_own_words(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.toml").write_text(RUN)
    assert main(["train", "talk.toml", "--run-dir", "run"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any(f"{GAME}/return/first" in line for line in lines)
    turns = [
        t for path in (tmp_path / "run" / "episodes").glob("*.jsonl") for e in load_episodes(path) for t in e.turns
    ]
    spoken = [turn for turn in turns if turn.trace is not None]
    assert spoken
    assert all(turn.form and not turn.legal and turn.trace.mask is None for turn in spoken)
    assert "What was learned" in capsys.readouterr().out


def test_a_player_that_needs_a_list_is_refused_before_the_first_match(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.toml").write_text(RUN.replace('anchors = ["scripted:good"]', 'anchors = ["equilibrium"]'))
    assert main(["train", "talk.toml", "--run-dir", "run"]) == 2
    assert "equilibrium plays OpenSpiel's games only" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
