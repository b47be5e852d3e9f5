"""Benchmarks of teams: compared at equal tokens, under settings that differ as named; noise is a variance."""

import itertools

import numpy as np
import pytest

from benchmarks.report import comparison
from benchmarks.studies import teams
from benchmarks.studies.credit import gradient_noise
from benchmarks.studies.credit.gradient_noise import noise_of
from league.config import load as settings

GAME = "lookup_chain"
ALL = (*teams.CONDITIONS, *teams.DECOUPLED)


def line(tokens, right=None, opened=1.0):
    """Return an iteration's metrics."""
    held_out = {} if right is None else {f"{GAME}/held_out_return": 0.1 + 0.9 * right}
    return {"reply_tokens": tokens, f"{GAME}/submatches": opened, **held_out}


def test_a_run_is_read_at_its_tokens_between_two_measurements():
    """0.2 right untrained, 0.4 after 300 tokens and 0.8 after 500: at 400 tokens 0.6."""
    lines = [line(0.0, 0.2), line(100.0), line(200.0, 0.4, 2.0), line(100.0, opened=3.0), line(100.0, 0.8)]
    figures = teams.figures(lines, GAME, 400)
    assert figures == {
        "figure": pytest.approx(0.6),
        "half": pytest.approx(0.2 + 0.2 * 200 / 300),
        "first": pytest.approx(0.2),
        "opened": 3.0,
    }


@pytest.mark.parametrize("condition", ALL, ids=lambda condition: condition.name)
def test_every_condition_is_a_run_that_could_start(condition):
    game, _ = teams.settings_of(condition)
    config = teams.config_of(condition)
    policies = {role.policy for seated in settings.run_roles(config).values() for role in seated}
    assert policies == set(condition.policies)
    assert list(config.games) == [game]
    assert config.games[game].matches == teams.MATCHES
    assert game.startswith("lookup_alone" if condition.alone else "lookup_chain")


def test_conditions_differ_in_what_is_compared():
    for conditions in (teams.CONDITIONS, teams.DECOUPLED):
        configs = [teams.config_of(condition) for condition in conditions]
        assert all(a != b for a, b in itertools.combinations(configs, 2))
        assert len({condition.name for condition in conditions}) == len(conditions)


def test_noise_is_the_variance_over_batches_and_over_draws():
    """Gradients (1, 0) and (3, 0): mean (2, 0), variance 2. Two draws each, 1 away in the other parameter: 2 more."""
    weighted = np.array([[1.0, 0.0], [3.0, 0.0]])
    drawn = weighted[:, None] + np.array([[[0.0, 1.0], [0.0, -1.0]], [[0.0, -1.0], [0.0, 1.0]]])
    noise = noise_of(weighted, drawn)
    assert noise["weight"] == {"figure": pytest.approx(2 / 4), "drawn": 0.0}
    assert noise["resample"] == {"figure": pytest.approx((2 + 2) / 4), "drawn": pytest.approx(2 / 4)}


def test_the_columns_of_a_table_are_its_own():
    runs = [{"figure": f, "half": f / 2} for f in (0.5, 0.6)]
    table = {"game": "g", "figure": "f", "less_is_better": False, "columns": {"half": "at half"}}
    lines = comparison.comparison_lines([table | {"conditions": [{"name": "one", "runs": runs}]}])
    assert lines[2:4] == [
        "| condition | mean, 95 % interval | less the first, by seed | at half |",
        "| --- | --- | --- | --- |",
    ]
    assert lines[4].endswith("| – | 0.28 |")


@pytest.mark.slow
def test_a_team_trains_until_its_tokens_are_there_and_then_shows_its_noise(tmp_path, monkeypatch):
    """The real thing at its smallest: a run that its tokens end, and two gradients of each kind."""
    small = ("model.hidden_size=16", "model.intermediate_size=32", "cold_start.steps=2", "cold_start.matches=50")
    common = (*teams.COMMON, *small, "evaluation.matches=8", "snapshot_every=2", "cold_start.batch_size=16")
    for name, value in {
        "COMMON": common,
        "MATCHES": 16,
        "TOKENS": 1500,
        "NOISE_TOKENS": 200,
        "CONDITIONS": (teams.BOTH,),
    }.items():
        monkeypatch.setattr(teams, name, value)
    monkeypatch.setattr(gradient_noise, "BATCHES", 2)
    monkeypatch.setattr(gradient_noise, "DRAWS", 2)
    [condition] = teams.teams_table([0], 0, tmp_path / "teams")["conditions"]
    [figures] = condition["runs"]
    assert 0.0 <= figures["figure"] <= 1.0
    assert figures["opened"] > 0.0
    conditions = teams.alignment_table([0], 0, tmp_path / "alignment")["conditions"]
    noise = {condition["name"]: condition["runs"][0] for condition in conditions}
    assert noise["weight"]["drawn"] == 0.0
    assert noise["resample"]["figure"] > 0.0
    assert 1.0 <= noise["weight"]["calls"] <= noise["weight"]["d"] <= 6.0
