"""A run whose free replies are all illegal stops, and says what to set; one that is told to continues."""

import json

from league.cli import main

SMALL = [
    "games={kuhn_poker={matches=48}}",
    "iterations=4",
    "snapshot_every=4",
    "cold_start.steps=0",
    "cold_start.matches=20",
    "evaluation.exact=false",
    "evaluation.matches=2",
    "optimizer.inner_steps=1",
]


def train(run, *settings):
    words = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return main(["train", "pocket-free", "--run-dir", str(run), *words])


def test_a_model_that_says_nothing_legal_rings_at_once_and_stops_the_run(tmp_path, capsys):
    run = tmp_path / "run"
    assert train(run) == 1
    error = capsys.readouterr().err
    assert "silent of kuhn_poker/first: in the last 3 iterations at least" in error
    assert "Set a longer cold start (cold_start.steps, or" in error
    assert "alarms.stop names silent, so the run stops here." in error
    assert "Everything up to iteration 3 is saved." in error
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("alarms/illegal") for line in metrics] == [None, 1.0, 1.0, 1.0]


def test_it_goes_on_where_that_is_set(tmp_path):
    assert train(tmp_path / "run", "alarms.stop=[]") == 0
