"""The study of public goods: valid configurations, and figures that are known of scripted players."""

import pytest
import tomli_w

import league
from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.cooperation import public_goods as study
from benchmarks.studies.runs import load_settings
from games.registry import make_game
from league.population.evaluation.head_to_head import compare
from league.population.players.engines import Engines
from league.population.players.player import resolve


@pytest.mark.parametrize("game", study.GAMES)
@pytest.mark.parametrize("rule", study.WEIGHTS)
def test_its_configurations_are_valid_and_differ_in_the_weight_alone(game, rule):
    config = load_settings(tomli_w.dumps(study.settings_of(game, rule)))
    assert list(config.games) == [study.GAMES[game]]
    others = {key: value for key, value in study.settings_of(game, rule).items() if key != "credit"}
    assert others == {key: value for key, value in study.settings_of(game, "plain").items() if key != "credit"}


@pytest.mark.parametrize("game", study.GAMES)
def test_shares_by_round_are_those_of_the_scripts(game):
    spec, engines = make_game(study.GAMES[game]).spec, Engines()
    good, poor = (resolve(f"scripted:{name}", spec, engines) for name in ("good", "poor"))
    episodes = compare((good, poor), 4, seed=0).episodes
    assert study.shares_given(episodes, "scripted:good") == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert study.shares_given(episodes, "scripted:poor") == [0.0] * 5
    seat = episodes[0].request.players.index("scripted:poor")
    assert study.kept(episodes[0], seat) == ([False] * 5 if game == "promises" else [])


def test_figures_become_a_table_for_each_game(tmp_path, monkeypatch):
    figures = dict.fromkeys(("figure", "seconds", *study.COLUMNS), 0.5)
    monkeypatch.setattr(study, "measure_runs", lambda configs, *_: {(n, s): figures for n in configs for s in (0, 1)})
    result = study.measure_study("public_goods", [0, 1], 1, tmp_path)
    lines = comparison_lines(result["tables"])
    assert sum(line.startswith("| aligned | 0.500 (0.500 to 0.500) | – | 0.50") for line in lines) == 2
    assert sum("promises kept" in line for line in lines) == 1


@pytest.mark.thorough
def test_a_run_of_two_iterations_has_all_figures(tmp_path):
    settings = study.settings_of("promises", "aligned") | {"iterations": 2, "cold_start": {"steps": 2}}
    league.train(load_settings(tomli_w.dumps(settings)), tmp_path / "run")
    figures = study.measure(tmp_path / "run")
    assert set(figures) == {"figure", *study.COLUMNS}
    assert all(0.0 <= figures[f"round_{number}"] <= 1.0 for number in range(1, 6))
    assert 5 * 2 * 0.75 <= figures["return"] <= 5 * 2 * 1.5
