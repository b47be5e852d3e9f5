"""The study of opponent models: configurations that are valid, players that can be met, and tables of figures."""

import pytest

from benchmarks.report.comparison import comparison_lines
from benchmarks.studies import opponents
from games.registry import make_game
from league.lab.comparisons.opponent_models import measure_opponents
from league.population.players.engines import Engines
from league.population.players.player import resolve

KUHN = "kuhn_poker"


@pytest.fixture(scope="module")
def found():
    """Return what a script can know of two others; it has no hidden states."""
    with Engines() as engines:
        player, *types = [
            resolve(name, make_game(KUHN).spec, engines) for name in ("random", "always:bet", "always:pass")
        ]
        models = measure_opponents(player, types, 60, seed=0)
        return opponents.Measured(models, models)


def test_each_game_is_trained_and_snapshots_that_are_met_are_kept():
    configs = opponents.configs()
    assert configs.keys() == opponents.SETTINGS.keys()
    for name, config in configs.items():
        setting = opponents.SETTINGS[name]
        assert list(config.games) == [setting.game]
        assert make_game(setting.game).spec.seats == 2
        assert config.iterations > config.snapshot_every == 20  # main-000020 is one of those that are met
        texts = [text.format(own="own", next="next") for text in setting.types]
        assert len(set(texts)) == len(texts) > 2


def test_predictors_and_ways_of_playing_become_tables(found):
    conditions = opponents.predicted([found, found])
    assert [one["name"] for one in conditions] == [
        "the most frequent answer",
        "table of what it sees",
        "a uniform guess",
        "exact Bayesian",
    ]
    by_name = {one["name"]: one["runs"][0] for one in conditions}
    assert by_name["a uniform guess"]["figure"] == 0.5
    assert by_name["exact Bayesian"]["second"] == 1.0  # who has bet or passed once is known
    assert by_name["table of what it sees"]["second"] == 1.0
    earned = opponents.played([found, found])
    assert earned[0]["name"] == "an equilibrium, whoever it is"
    values = {one["name"]: one["runs"][0]["figure"] for one in earned}
    assert values["best response to Bayes' belief"] > values["an equilibrium, whoever it is"]
    table = {
        "game": "g",
        "figure": "f",
        "less_is_better": False,
        "columns": opponents.COLUMNS,
        "conditions": conditions,
    }
    lines = comparison_lines([table, table | {"columns": {}, "conditions": earned}])
    assert any(line.startswith("| exact Bayesian | ") for line in lines)
    # A passer loses 1 to every bet; of a bettor a king wins 2, a queen nothing on average, and a jack folds for 1.
    assert values["best response to each, told who it is"] == pytest.approx((1 + 1 / 3) / 2)
    assert any(line.startswith("| best response to each, told who it is | 0.667") for line in lines)
