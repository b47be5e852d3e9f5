"""A run whose cards have slots: what is learned from is what was seen, and it is resumed bit for bit with its notes."""

import pytest
from support.processes.runs import TrainingProcess, contents
from support.processes.unbroken import UnbrokenRun
from support.source import ROOT

from league.training.board.metrics_log import read_metrics

GAME = "repeated_kuhn_poker(hands=3)"
CARDS = ROOT / "tests" / "data" / "slots"
SETTINGS = f"""
games."{GAME}".matches = 16
roles.cards = "{CARDS}"
alarms.stop = []
matchmaking = {{ self_play = 0.5, fictitious = 0.5 }}
"""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return UnbrokenRun(SETTINGS, tmp_path_factory.mktemp("unbroken"))


def versions(run):
    return sorted(path.stem for path in (run / "notes").iterdir())


@pytest.mark.thorough
def test_the_learner_sees_what_was_sampled(unbroken):
    lines = [line for line in read_metrics(unbroken.run) if line["iteration"]]
    assert max(line["gap"] for line in lines) < 1e-5  # nats
    last = lines[-1]
    assert last[f"{GAME}/first/context/texts"] == 2.0  # its notes, and its plan for the other
    assert 0.0 < last[f"{GAME}/second/context/kept"] < 1.0


@pytest.mark.thorough
def test_a_killed_run_ends_with_the_same_notes(unbroken, tmp_path):
    run = tmp_path / "run"
    for window in (("notes/", 2), ("state/.iteration-000002", 2)):
        arguments = ["--resume"] if (run / "config.toml").exists() else [unbroken.config]
        TrainingProcess(*arguments, run_dir=run, die_at=window).end()
    assert TrainingProcess("--resume", run_dir=run).end().status == 0
    assert contents(run) == contents(unbroken.run)
    assert versions(run) == versions(unbroken.run)
