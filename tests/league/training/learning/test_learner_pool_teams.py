"""Learner processes of teams: the run of one process, and every record read once, those of opened matches too."""

import pytest
from support.processes.learners import AHEAD, EACH, trained_here
from support.processes.runs import TINY, contents, league_train

from league.config.context import run_context
from league.config.load import load
from league.training.learning.learner_process import learners_of, open_records

GAME = "lookup_chain(people=6,relations=2)"
SHORT = TINY.replace("iterations = 6", "iterations = 4")
TEAM = SHORT.replace("games.kuhn_poker.matches = 64", f'games."{GAME}".matches = 16')
TEAM += """
credit.rule = "m_grpo"
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 4 }
policies.sub.every = 2
evaluation.exact = false
evaluation.anchors = ["scripted:optimal"]
roles.policy = { "lookup(people=6,relations=2)/worker" = "sub" }
"""
RELAY = SHORT.replace("kuhn_poker.matches = 64", "relay_arithmetic.matches = 64")
RELAY += """
credit.rule = "malt"
objective.name = "dpo"
matchmaking = { self_play = 1.0, fictitious = 0.0, tree = 2 }
policies = { main = { objective = "ppo" }, sub = { every = 2 } }
roles.policy = { "relay_arithmetic/verifier" = "sub", "relay_arithmetic/refiner" = "sub" }
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "team.toml"
    path.write_text(TEAM)
    return path


def test_roles_of_opened_matches_have_learners_too(config):
    assert learners_of(run_context(load(str(config), EACH[1:]), config.parent)) == {"main": ("main",), "sub": ("sub",)}


IN_TREES = pytest.param(RELAY, id="preferences in trees", marks=pytest.mark.slow)


@pytest.mark.thorough
@pytest.mark.parametrize("text", [pytest.param(TEAM, id="matches that open matches"), IN_TREES])
def test_taking_turns_it_is_the_run_of_one_process(text, config, tmp_path):
    config.write_text(text)
    for name, arguments in (("here", []), ("apart", EACH)):
        ended = league_train(config, *arguments, run_dir=tmp_path / name)
        assert ended.status == 0, ended.output
    here, apart = trained_here(tmp_path / "here"), trained_here(tmp_path / "apart")
    learned = {name for line in here["metrics.jsonl"] for name in line}
    assert learned >= {"main/loss", "sub/loss"}
    assert ("sub/pairs" in learned, "main/pairs" in learned) == (text is RELAY, False)
    assert [name for name in here | apart if here.get(name) != apart.get(name)] == []


def test_ahead_by_two_updates_every_record_is_read_once_by_both(config, tmp_path):
    """Every match of both games is trained in its only seat, so it is one record."""
    run = tmp_path / "run"
    ended = league_train(config, *EACH, *AHEAD[:-2], run_dir=run)
    assert ended.status == 0, ended.output
    with open_records(load(str(run / "config.toml")), run) as store:
        assert store.stored() == (0, 0)
        main, sub = (tuple(store.progress(name)) for name in ("main", "sub"))
    metrics = [line for line in contents(run)["metrics.jsonl"] if f"{GAME}/submatches" in line]
    assert len(metrics) == 4
    opened = sum(round(16 * line[f"{GAME}/submatches"]) for line in metrics)
    assert opened > 16
    assert main == sub == (4, 4 * 16 + opened, 0)


@pytest.mark.thorough
@pytest.mark.parametrize(("rests", "learns"), [("main", "sub"), ("sub", "main")])
def test_a_policy_learns_while_the_one_above_or_below_it_is_frozen(rests, learns, config, tmp_path):
    ended = league_train(config, "--set", f"policies.{rests}.frozen=true", run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
    lines = trained_here(tmp_path / "run")["metrics.jsonl"]
    assert sum(f"{learns}/loss" in line for line in lines) == (2 if learns == "sub" else 4)  # sub.every = 2
    assert not any(f"{rests}/loss" in line for line in lines)
