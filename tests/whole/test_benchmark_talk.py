"""The study of learning to talk: a game of each motive, configurations that are valid, and tables that can be shown."""

import pytest
import tomli_w

from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.language import talk
from games.registry import make_game
from games.spec import HasScripts, Utility
from league.config import load as settings


def test_there_is_a_game_of_each_motive_and_its_script_plays_it():
    games = [make_game(study.game) for study in talk.STUDIES]
    assert [game.spec.utility for game in games] == [Utility.ZERO_SUM, Utility.GENERAL_SUM, Utility.IDENTICAL]
    for study, game in zip(talk.STUDIES, games, strict=True):
        assert isinstance(game, HasScripts)
        assert study.script.removeprefix("scripted:") in game.scripts()
        assert not game.spec.free_text


@pytest.mark.parametrize("study", talk.STUDIES, ids=lambda study: study.motive)
def test_its_configurations_are_valid_and_one_policy_has_all_roles(study, tmp_path):
    (tmp_path / "talk.toml").write_text(tomli_w.dumps(talk.settings_of(talk.Run(study, 3))))
    config = settings.load(str(tmp_path / "talk.toml"), [])
    assert set(config.roles.policy.values()) == {"main"}
    assert config.seed == 3


def test_figures_become_a_table_of_conditions(tmp_path, monkeypatch):
    returns = dict(zip(talk.CONDITIONS, (-0.5, 0.25, 0.5), strict=True))
    figures = {"figure": 0.25, "returns": returns, "seconds": 1.0}
    monkeypatch.setattr(talk, "measure_runs", lambda configs, *_: {(n, s): figures for n in configs for s in (0, 1)})
    result = talk.measure_study("talk", [0, 1], 1, tmp_path)
    assert len(result["tables"]) == 3
    lines = comparison_lines(result["tables"])
    assert "| trained | 0.250 (0.250 to 0.250) | +0.750 (+0.750 to +0.750): better |" in lines
