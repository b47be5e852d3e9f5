"""A setting that is gone says what to write instead; in a stored run, which has all of them, it means what it did."""

import pytest

from games.common.errors import UsageError
from league.config.former import FORMER, from_stored
from league.config.load import load, load_run_config, to_toml

STORED = """
[alarms]
collapse = 0.98
illegal_stop = 0.95
stop = ["hack"]
[objective]
epo = 0.1
epo_low = 0.8
[matchmaking]
pfsp_weighting = "hard"
"""


@pytest.fixture
def stored(tmp_path):
    def write(text):
        (tmp_path / "config.toml").write_text(f"layout = 3\n[games.kuhn_poker]\nmatches = 8\n{text}")
        return tmp_path

    return write


@pytest.mark.parametrize("key", FORMER)
def test_one_that_is_set_says_what_to_write(key):
    with pytest.raises(UsageError, match=rf"{key} = 0.3 is no longer a setting\. .+"):
        load("pocket", [f"{key}=0.3"])


def test_a_stored_run_means_what_it_meant(stored):
    config = load_run_config(stored(STORED))
    assert (config.alarms.stop, config.objective.epo) == (("hack", "silent"), 0.1)
    assert "illegal_stop" not in to_toml(config)
    assert load_run_config(stored("[alarms]\nillegal_stop = 1.0\nstop = []")).alarms.stop == ()
    assert load_run_config(stored("[alarms]\nstop = []")).alarms.stop == (), "written today"


def test_limits_of_alarms_of_a_stored_run_are_left_out(stored):
    run = stored("[alarms]\nsignal = 0.0\ncollapse = 0.5\nillegal_stop = 0.6\nstop = []")
    assert load_run_config(run).alarms.stop == ("silent",)


@pytest.mark.parametrize("key", ["objective.epo_low", "matchmaking.pfsp_power"])
def test_a_stored_value_that_cannot_be_had_any_more_is_refused(stored, key):
    table, name = key.split(".")
    with pytest.raises(UsageError, match=f"{key} = 0.6 is no longer a setting"):
        load_run_config(stored(f"[{table}]\n{name} = 0.6"))


def test_a_stored_curriculum_trains_only_the_games_that_it_draws(stored):
    """Games that are not drawn keep a share today; a run from before that goes on without, and with its own bar."""
    before = load_run_config(stored("[curriculum]\nmatches = 16\nbetter = 0.1")).curriculum
    assert (before.kept, before.better) == (0.0, 0.1)
    assert load_run_config(stored("[curriculum]\nmatches = 16\nkept = 0.5")).curriculum.kept == 0.5, "written today"


def test_nothing_else_changes():
    data = {"games": {"kuhn_poker": {}}, "alarms": {"warmup": 3}, "objective": 5}
    assert from_stored(data) == data
