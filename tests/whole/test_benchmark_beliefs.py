"""The study of listening and speaking: configurations that are valid, what Bayesians find, and a table to be shown."""

import pytest
import tomli_w

from benchmarks.report.comparison import comparison_lines
from benchmarks.studies import beliefs
from league.config import load as settings


@pytest.mark.parametrize("condition", beliefs.CONDITIONS)
def test_every_condition_asks_and_differs_only_in_what_comes_of_it(condition, tmp_path):
    (tmp_path / "study.toml").write_text(tomli_w.dumps(beliefs.settings_of(condition)))
    config = settings.load(str(tmp_path / "study.toml"), [])
    used = {name for name, term in config.beliefs.terms.items() if term.on}
    expected = {"RL alone": set(), "both": {"listening", "speaking"}}
    assert config.beliefs.asked
    assert used == expected.get(condition, {condition})
    plain = settings.load(str(tmp_path / "study.toml"), ["beliefs={ask = true}"])
    assert plain.model_copy(update={"beliefs": config.beliefs}) == config


def test_bayesians_learn_from_each_other(monkeypatch):
    monkeypatch.setattr(beliefs, "BAYESIANS", 20)
    found = beliefs.bayesians(0)
    assert found["heard"] > found["before"] > 0.25
    assert found["bits"] > 0.0


def test_figures_become_a_table_of_conditions(tmp_path, monkeypatch):
    figures = {"figure": 0.25, "before": 0.25, "heard": 0.5, "bits": 0.1, "seconds": 1.0}
    monkeypatch.setattr(beliefs, "BAYESIANS", 4)
    monkeypatch.setattr(beliefs, "measure_runs", lambda configs, *_: {(n, s): figures for n in configs for s in (0, 1)})
    result = beliefs.measure_study("beliefs", [0, 1], 1, tmp_path)
    lines = comparison_lines(result["tables"])
    assert any("| listening | 0.250 (0.250 to 0.250)" in line for line in lines)
    assert any("Bayesians" in line for line in lines)
