"""Illegal replies ring from the first iteration on, and where nothing else is said, a run is to stop."""

from types import SimpleNamespace

import pytest
from support.learning.trajectories import trajectory

from games.common.errors import UsageError
from games.registry import make_game
from league import load_config
from league.config.learning import AlarmsConfig
from league.training.monitors.alarm import Watched
from league.training.monitors.alarms import check_alarms
from league.training.monitors.reply_alarms import Counts, judge_illegal, judge_silent, read_replies
from roles.cards import load_roles, with_overrides

SETTINGS = AlarmsConfig()
CHOICE = {"kuhn_poker": load_roles(make_game("kuhn_poker").spec)}
TINKER = (
    "model.source=some/base",
    "roles.reply=free",
    "roles.on_illegal=forfeit",
    "roles.temperature=1.0",
    "policies.main.weights=lora",
    "objective.entropy=0.0",
    "trainer.kind=tinker",
)
FREE = {"kuhn_poker": tuple(with_overrides(role, reply="free") for role in CHOICE["kuhn_poker"])}


def iteration(illegal, replies=100):
    played = [trajectory((0.0,)) for _ in range(replies)]
    return [
        one._replace(turns=(one.turns[0]._replace(action=None if number < illegal else "bet"),))
        for number, one in enumerate(played)
    ]


def judged(*shares, roles=FREE):
    state, verdicts = {}, []
    for illegal in shares:
        readings, state = read_replies(Watched(roles, SETTINGS, iteration(illegal), [], {}, {}), state)
        verdicts = [(subject, judge_illegal(counts, SETTINGS)) for subject, counts in readings.items()]
    return verdicts, state


def test_it_rings_in_the_first_iteration():
    assert judged(51)[0] == [("kuhn_poker/first", "51% of its replies are illegal, above 50%.")]


@pytest.mark.parametrize("illegal", [0, 30, 50])
def test_it_is_silent_up_to_half(illegal):
    assert judged(illegal)[0] == [("kuhn_poker/first", "")]


def test_masked_replies_are_not_judged():
    assert judged(100, roles=CHOICE)[0] == []


def silent(*shares, settings=SETTINGS, learns="here"):
    [rows] = judged(*shares)[1].values()
    return judge_silent(Counts(rows, learns), settings)


def test_what_it_advises_is_taken_by_the_trainer(tmp_path):
    """Each setting named is tried in a run that learns behind the Tinker API, or is one of those of its own."""
    config = tmp_path / "run.toml"
    config.write_text("games.kuhn_poker = { matches = 8 }\n")
    state, illegal = {}, iteration(100)
    for number in (1, 2, 3):
        context = SimpleNamespace(config=elsewhere(config), roles=FREE)
        alarms, _, state = check_alarms(context, state, number, illegal, [[0.0]] * len(illegal), {})
    [said] = [alarm.message for alarm in alarms if alarm.name == "silent"]
    assert "cold_start" not in said
    assert "temperature" not in said
    assert "choice" not in said
    assert elsewhere(config, "roles.demonstrations=1").roles.demonstrations == 1
    for refused in ("cold_start.own_replies=32", "roles.temperature=0.7", "roles.reply=choice"):
        with pytest.raises(UsageError):
            elsewhere(config, refused)
    assert "cold_start.own_replies = 32" in silent(100, 100, 100)


def elsewhere(config, *changes):
    return load_config(config, *TINKER, *changes)


def test_a_role_is_silent_after_three_iterations_of_nothing_legal():
    assert silent(96, 96) is None
    assert silent(10, 96, 100, 97).startswith("in the last 3 iterations at least 96% of its replies were illegal")
    assert "cold_start.own_replies" in silent(96, 96, 96)
    assert silent(96, 95, 96) == ""
    assert SETTINGS.stop == ("silent",)


@pytest.mark.parametrize(("sensitivity", "rings"), [(0.5, [False, False]), (1.0, [False, True]), (4.0, [True, True])])
def test_sensitivity_moves_the_limits(sensitivity, rings):
    """Of illegal replies 13 % and 51 %: the limits are 100 %, 50 % and 12.5 %."""
    settings = AlarmsConfig(sensitivity=sensitivity)
    assert [bool(judge_illegal(Counts([[100, illegal]], "here"), settings)) for illegal in (13, 51)] == rings
    assert bool(silent(81, 81, 81, settings=settings)) == (sensitivity == 4.0), "the limit is 80 %"


def test_it_forgets_iterations_beyond_its_window():
    assert judged(100, 0, 0, 0, 0, 0)[0][0][1] == ""
