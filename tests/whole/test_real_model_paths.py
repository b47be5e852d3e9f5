"""The rest of the project with the pretrained model: leagues, preferences, GSPO, teams, a judge, matches against it.

`make test-llm` runs this; each run is two iterations long, so what is tested is the path and not the learning.
"""

import io
import json

import pytest

from arena.replays import load_episodes
from league.cli import main
from league.training.board.metrics_log import read_metrics
from tests.support.models.real_model import SMALL, settings

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("smollm2")]

LEAGUE = [
    "matchmaking={self_play=0.5, fictitious=0.0, pfsp=0.35, verification=0.15, opponents=1}",
    'policies.probe={weights="lora", rank=8, league_role="main_exploiter"}',
    "exploiters={share=0.5, freeze_from=1, freeze_after=2}",
    'evaluation={mixture="least_exploitable", gate=0.5, matches=4}',
]
TREES = [
    "games={relay_arithmetic={matches=16}}",
    'credit.rule="malt"',
    "matchmaking={self_play=1.0, fictitious=0.0, tree=2}",
    'objective.name="dpo"',
    "evaluation={exact=false, matches=0, anchors=[]}",
]
TEAM = [
    'games={"lookup_chain(people=6,relations=2)"={matches=16}}',
    'roles.policy={"lookup_chain(people=6,relations=2)/planner"="main", "lookup(people=6,relations=2)/worker"="sub"}',
    'policies.sub={weights="lora", rank=8}',
    'credit.rule="m_grpo"',
    "matchmaking={self_play=1.0, fictitious=0.0, group_size=4}",
    "evaluation={exact=false, matches=2, anchors=[]}",
]

JUDGED = """
iterations = 2
snapshot_every = 1
threads = 1
games.debate.matches = 8
roles.temperature = 0.5
roles.player = {"debate/judge" = "hf:smollm2-135m"}
model = {hidden_size = 32, layers = 1, heads = 2, kv_heads = 1, intermediate_size = 32}
cold_start = {steps = 60, matches = 60}
evaluation = {exact = false, matches = 0, anchors = []}
"""


def trained(run_dir, *changes):
    """Train with the preset ``smol`` and return the metrics of the last iteration."""
    assert main(["train", "smol", "--run-dir", str(run_dir), *settings([*SMALL, *changes])]) == 0
    *_, last = read_metrics(run_dir)
    return last


def test_a_league_with_an_exploiter_and_a_gate(tmp_path):
    last = trained(tmp_path / "run", *LEAGUE)
    assert last["main/gap"] < 1e-4
    assert last["probe/gap"] < 1e-4
    assert {path.name.split("-")[0] for path in (tmp_path / "run" / "population").iterdir()} >= {"main", "probe"}
    assert 0.0 <= last["kuhn_poker/mixture_exploitability"] <= last["kuhn_poker/exploitability"] + 1e-9


def test_it_learns_from_preferences_between_its_own_replies(tmp_path):
    last = trained(tmp_path / "run", *TREES)
    assert last["main/pairs"] > 0
    assert last["main/loss"] < 1.0  # log 2 before the first step


def test_gspo_weighs_whole_replies(tmp_path):
    last = trained(tmp_path / "run", 'objective.name="gspo"', "objective.clip_low=0.2", "objective.clip_high=0.2")
    assert last["main/gap"] < 1e-4


def test_a_planner_and_its_workers_share_the_model_by_adapters(tmp_path):
    last = trained(tmp_path / "run", *TEAM)
    assert last["main/gap"] < 1e-4
    assert last["sub/gap"] < 1e-4


def test_it_judges_a_debate_of_others_who_learn(tmp_path):
    """It has no policy of the run: its verdicts, in its own words, decide what two debaters from scratch learn from."""
    (tmp_path / "judged.toml").write_text(JUDGED)
    assert main(["train", str(tmp_path / "judged.toml"), "--run-dir", str(tmp_path / "run")]) == 0
    episodes = [e for path in (tmp_path / "run" / "episodes").glob("*.jsonl") for e in load_episodes(path)]
    turns = [turn for episode in episodes for turn in episode.turns]
    judged = [turn for turn in turns if turn.role == "judge"]
    assert judged
    assert {turn.player for turn in judged} == {"hf:smollm2-135m"}
    assert all(turn.action in (None, "box 1", "box 2", "box 3", "box 4") for turn in judged)
    assert all(turn.player.startswith("main") for turn in turns if turn.role != "judge")
    *_, last = read_metrics(tmp_path / "run")
    assert last["main/gap"] < 1e-4
    assert {path.name.split("-")[0] for path in (tmp_path / "run" / "population").iterdir()} == {"main"}


def test_a_person_plays_against_a_snapshot(tmp_path, monkeypatch, capsys):
    run_dir = tmp_path / "run"
    trained(run_dir)
    monkeypatch.setattr("sys.stdin", io.StringIO("pass\n" * 8))
    assert main(["play", "--game", "kuhn_poker", "--against", f"{run_dir}@main-000002", "--seed", "3"]) == 0
    assert "The match is over." in capsys.readouterr().out
    assert main(["exploitability", f"{run_dir}@main-000002", "--game", "kuhn_poker", "--json"]) == 0
    assert 0.0 < json.loads(capsys.readouterr().out)["exploitability"] < 1.0
