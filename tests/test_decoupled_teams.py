"""Learner processes of a planner and its workers, whose matches its own open: the same run, every record once."""

import pytest
from run_processes import TINY, contents, league_train
from test_decoupled import AHEAD, EACH, trained_here

from league.learner_process import learners_of, open_records
from league.settings import load

GAME = "lookup_chain(people=6,relations=2)"
TEAM = (
    TINY.replace("games.kuhn_poker.matches = 64", f'games."{GAME}".matches = 16').replace(
        "iterations = 6", "iterations = 4"
    )
    + """
credit.rule = "m_grpo"
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 4 }
policies.sub.every = 2
evaluation.exact = false
evaluation.anchors = ["scripted:optimal"]
roles.policy = { "lookup(people=6,relations=2)/worker" = "sub" }
"""
)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "team.toml"
    path.write_text(TEAM)
    return path


def test_roles_of_opened_matches_have_learners_too(config):
    assert learners_of(load(str(config), EACH[1:])) == {"main": ("main",), "sub": ("sub",)}


def test_taking_turns_it_is_the_run_of_one_process(config, tmp_path):
    for name, arguments in (("here", []), ("apart", EACH)):
        ended = league_train(config, *arguments, run_dir=tmp_path / name)
        assert ended.status == 0, ended.output
    here, apart = trained_here(tmp_path / "here"), trained_here(tmp_path / "apart")
    assert {name.split("-")[0] for name in here if name.startswith("population/")} >= {
        "population/main",
        "population/sub",
    }
    assert [name for name in here | apart if here.get(name) != apart.get(name)] == []


def test_ahead_by_two_updates_every_record_is_read_once_by_both(config, tmp_path):
    """Every match of both games is trained in its only seat, so it is one record."""
    run = tmp_path / "run"
    ended = league_train(config, *EACH, *AHEAD[:-2], run_dir=run)
    assert ended.status == 0, ended.output
    with open_records(load(str(run / "config.toml")), run) as store:
        assert store.held() == (0, 0)
        main, sub = (tuple(store.progress(name)) for name in ("main", "sub"))
    metrics = [line for line in contents(run)["metrics.jsonl"] if f"{GAME}/opened" in line]
    assert len(metrics) == 4
    opened = sum(round(16 * line[f"{GAME}/opened"]) for line in metrics)
    assert opened > 16
    assert main == sub == (4, 4 * 16 + opened, 0)
