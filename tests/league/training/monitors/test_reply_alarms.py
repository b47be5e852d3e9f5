"""Illegal replies ring from the first iteration on, and where nothing else is said, a run is to stop."""

import pytest
from support.learning.trajectories import trajectory

from games.registry import make_game
from league.config.learning import AlarmsConfig
from league.training.monitors.alarm import Watched
from league.training.monitors.reply_alarms import judge_illegal, read_replies, why_to_stop
from roles.cards import load_roles, with_overrides

SETTINGS = AlarmsConfig()
CHOICE = {"kuhn_poker": load_roles(make_game("kuhn_poker").spec)}
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
    assert judged(51)[0] == [("kuhn_poker/first", "51% of its replies are illegal, above alarms.illegal = 0.5.")]


@pytest.mark.parametrize("illegal", [0, 30, 50])
def test_it_is_silent_up_to_half(illegal):
    assert judged(illegal)[0] == [("kuhn_poker/first", "")]


def test_masked_replies_are_not_judged():
    assert judged(100, roles=CHOICE)[0] == []


def test_a_run_is_to_stop_after_three_iterations_of_nothing_else():
    assert why_to_stop({"replies": judged(96, 96)[1]}, SETTINGS, True) == ""
    reason = why_to_stop({"replies": judged(10, 96, 100, 97)[1]}, SETTINGS, True)
    assert reason.startswith("In the last 3 iterations at least 96% of main's replies as kuhn_poker/first were illegal")
    assert "cold_start.own_replies" in reason
    assert why_to_stop({"replies": judged(96, 95, 96)[1]}, SETTINGS, True) == ""


def test_it_may_go_on_where_that_is_set():
    settings = SETTINGS.model_copy(update={"illegal_stop": 1.0})
    assert why_to_stop({"replies": judged(100, 100, 100)[1]}, settings, False) == ""


def test_it_forgets_iterations_beyond_its_window():
    assert judged(100, 0, 0, 0, 0, 0)[0][0][1] == ""
