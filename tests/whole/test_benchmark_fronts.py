"""Studies of teams' verdicts and of what brevity costs: what they compare, and the real thing at its smallest."""

import pytest

from benchmarks.studies import verdicts
from benchmarks.studies.language import brevity


def test_conditions_differ_in_the_weight_of_brevity_alone():
    configs = brevity.conditions().values()
    assert [config.credit.gdpo.weights["brevity"] for config in configs] == list(brevity.WEIGHTS)
    assert len({config.model_copy(update={"credit": None}).model_dump_json() for config in configs}) == 1


def test_who_is_alone_reads_the_same_settings_as_the_team():
    alone, team = verdicts.alone(), verdicts.team_of_study("verdicts-team")
    assert alone.model == team.model
    assert alone.optimizer == team.optimizer
    assert alone.objective == team.objective
    assert [game.matches for game in alone.games.values()] == [game.matches for game in team.games.values()]


@pytest.mark.thorough
def test_the_front_at_its_smallest(tmp_path, monkeypatch):
    small = ("iterations=2", "snapshot_every=1", f"games.{brevity.GAME}.matches=32", "cold_start.steps=5")
    monkeypatch.setattr(brevity, "SETTINGS", (*brevity.SETTINGS, *small))
    monkeypatch.setattr(brevity, "WEIGHTS", (0.0, 1.0))
    [table] = brevity.measure_study("brevity", [0], 0, tmp_path)["tables"]
    for condition in table["conditions"]:
        [run] = condition["runs"]
        assert 0.0 < run["tokens"] <= 2 * 6
        assert 0.0 <= run["illegal"] <= 1.0


@pytest.mark.thorough
def test_a_verdict_at_its_smallest(tmp_path, monkeypatch):
    monkeypatch.setattr(verdicts, "MATCHES", 8)
    monkeypatch.setattr(verdicts, "ALONE_ITERATIONS", 2)
    monkeypatch.setattr(verdicts, "DEALS", 20)
    whole = verdicts.team_of_study
    short = {"iterations": 2, "snapshot_every": 1}
    monkeypatch.setattr(verdicts, "team_of_study", lambda study: whole(study).model_copy(update=short))
    result = verdicts.measure_study("verdicts-team", [0], 0, tmp_path)
    [table] = result["tables"]
    names = [condition["name"] for condition in table["conditions"]]
    assert names[0] == verdicts.TEAM
    assert {"planner: random", "worker: untrained", "one alone"} <= set(names)
    assert result["roles"][0].keys() == {"planner", "worker"}
