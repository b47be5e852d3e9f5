"""The recipes for a credit rule with data of its own, and for an estimator of play, in docs/extend/extending.md."""

import json
import os
import subprocess
import sys
from math import log

import pytest
from support.learning.trajectories import trajectory
from support.pages import EXTENDING, blocks
from support.source import ROOT

from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common import plugins
from games.registry import make_game
from learners.advantages import RULES
from learners.record_store.codec import from_record, to_record
from learners.trajectories import Evidence, to_trajectories
from learners.values import ESTIMATORS
from learners.values.estimator import Simulator
from roles.cards import load_roles

FILES = {file: text for file, _, text in blocks(EXTENDING) if file in ("choices_credit.py", "before_and_after.py")}
SMALL = ["iterations=2", "snapshot_every=2", "threads=1", "games.kuhn_poker.matches=16", "evaluation.matches=4"]
SMALL += ["model.hidden_size=16", "model.layers=1", "model.intermediate_size=16", "cold_start.steps=2", "board.time=0"]
SMALL += ["cold_start.matches=4"]


@pytest.fixture
def registered(monkeypatch):
    """Run the recipes' files in this process; other tests do not know what they register."""
    monkeypatch.setattr(plugins, "_registered", dict(plugins._registered))
    for file, text in FILES.items():
        exec(compile(text, file, "exec"), {"__name__": file.removesuffix(".py")})  # they stand in this repository


def trained(folder, plugin, *settings):
    """Train a tiny run with a recipe's file in the folder; return its metrics and its configuration."""
    for file, text in FILES.items():
        (folder / file).write_text(text, encoding="utf-8")
    words = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    train = [sys.executable, "-m", "league", "train", "pocket-returns", "--game", "kuhn_poker"]
    command = [*train, "--plugin", plugin, *words]
    done = subprocess.run(
        [*command, "--run-dir", "run"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[-1])
    return metrics, (folder / "run/config.toml").read_text()


def test_a_rule_with_its_own_data_credits_by_it(registered):
    batch = [trajectory((0.0, 1.0)), trajectory((-1.0,))]
    evidence = [Evidence(legal_actions=(2, 4)), Evidence(legal_actions=(2,))]
    credited = RULES["by_choices"].make(batch, evidence, {}, None)
    scale = log(16) / 3
    expected = [[log(2) / scale, log(4) / scale], [-log(2) / scale]]
    assert credited.advantages == [pytest.approx(row) for row in expected]


def test_data_of_a_plugin_is_stored_as_any_other(registered):
    evidence = Evidence(values=(0.5,), legal_actions=(2,), notes=(("a", (1, None)),))
    assert from_record(*to_record(trajectory((1.0,)), evidence)[-4:])[1] == evidence


def test_a_run_with_its_own_data_trains_and_names_its_plugin(tmp_path):
    metrics, config = trained(tmp_path, "choices_credit", "credit.rule=by_choices")
    assert metrics["kuhn_poker/advantage/first/spread"] > 0.0
    assert 'plugins = [\n    "choices_credit",\n]' in config


def test_an_estimator_of_play_trains_and_keeps_its_settings(tmp_path):
    settings = ["credit.rule=contribution", "values.estimator=before_and_after", "values.before_and_after.count=3"]
    metrics, config = trained(tmp_path, "before_and_after", *settings)
    assert metrics["kuhn_poker/advantage/first/spread"] > 0.0
    assert "[values.before_and_after]\ncount = 3" in config
    assert 'plugins = [\n    "before_and_after",\n]' in config


def test_an_estimator_of_play_takes_the_matches_own_return_after_its_last_turn(registered):
    """Here all others that are played on pay 2 and -2, and returns were divided by 2."""
    roles = load_roles(make_game("kuhn_poker").spec)
    request = MatchRequest(0, "kuhn_poker", 3, 3, ("a", "b"), (True, True))
    (episode,) = play([request], roles_of=lambda _: roles, engine_of=lambda _: Random(), make_game=make_game)
    trajectories = to_trajectories([episode], lambda _: roles, {"kuhn_poker": 2.0})

    def others(requests):
        return [episode._replace(request=asked, returns=(2.0, -2.0)) for asked in requests]

    simulator = Simulator({0: episode}, others, {"kuhn_poker": 2.0}, lambda _: 0, None)
    estimator = ESTIMATORS["before_and_after"]
    cells = estimator.make(trajectories, simulator, estimator.settings())["contributions"]
    for one, added in zip(trajectories, cells, strict=True):
        sign = 1.0 if one.seat == 0 else -1.0
        last = len(episode.turns) - 1
        assert added == tuple((episode.returns[one.seat] / 2.0 - sign) if place == last else 0.0 for place in one.order)
