"""What roles do: kinds of replies, entropy, credit and actions by role and turn."""

import math
from types import SimpleNamespace

import pytest

from arena.records import TokenTrace, Turn
from league.training.board.observers.conduct import LAST_TURN, conduct_metrics, observe_conduct, tag_part
from roles.role import ReplyForm

FREE = SimpleNamespace(name="first", reply=ReplyForm.FREE, tools=(), answer_open="[", max_reply_tokens=8)
CHOICE = SimpleNamespace(name="first", reply=ReplyForm.CHOICE, tools=(), answer_open="[", max_reply_tokens=8)


def turn(action, reply="[bet]", probability=0.5, tokens=3, tool=""):
    trace = TokenTrace("main", (1,), (1,) * tokens, (math.log(probability),) + (0.0,) * (tokens - 1), None)
    return Turn(0, "first", "main", "Your card: J", ("pass", "bet"), reply, action, 0.0, trace, tool)


def trajectory(*turns):
    return SimpleNamespace(game="kuhn_poker", role="first", seat=0, turns=turns, match_return=1.0)


def metrics(trajectories, advantages, role):
    return conduct_metrics(observe_conduct(trajectories, advantages, {"kuhn_poker": [role]}))


def test_replies_are_told_apart():
    """Of eight replies three are legal at once, one after an illegal one, one is at its longest, one is a call."""
    illegal, cut, call = turn(None, "what"), turn(None, "so on and on", tokens=8), turn("look", tool="look")
    played = [trajectory(illegal, turn("bet")), trajectory(turn("bet"), turn("pass")), trajectory(turn("bet"), call)]
    played += [trajectory(illegal), trajectory(cut)]
    found = metrics(played, [[0.0] * len(t.turns) for t in played], FREE)
    kinds = {name.rpartition("/")[2]: value for name, value in found.items() if "/replies/" in name}
    eighth = 1 / 8
    assert kinds == {"legal": 3 * eighth, "retried": eighth, "tool": eighth, "illegal": 2 * eighth, "truncated": eighth}
    assert found["kuhn_poker/reply_length/first"] == pytest.approx((7 * 3 + 8) / 8)


def test_a_masked_role_without_tools_has_no_kinds_of_replies():
    found = metrics([trajectory(turn("bet"))], [[0.5]], CHOICE)
    assert not [name for name in found if "/replies/" in name or "length" in name]


def test_entropy_is_minus_the_mean_log_probability_by_turn():
    """A fair coin has ln 2 nats; what is certain has none."""
    played = [trajectory(turn("bet", probability=0.5), turn("pass", probability=1.0)) for _ in range(4)]
    found = metrics(played, [[0.0, 0.0]] * 4, CHOICE)
    assert found["kuhn_poker/entropy/first/turn_1"] == pytest.approx(math.log(2.0))
    assert found["kuhn_poker/entropy/first/turn_2"] == 0.0


def test_credit_is_by_turn_and_late_turns_are_counted_together():
    long = trajectory(*[turn("bet")] * (LAST_TURN + 2))
    found = metrics([long, trajectory(turn("bet"))], [[1.0, 0.0, 0.0, 0.0, 3.0, 3.0, 6.0], [-1.0]], CHOICE)
    assert found["kuhn_poker/advantage/first/turn_1/mean"] == 0.0
    assert found["kuhn_poker/advantage/first/turn_1/spread"] == 1.0
    assert found[f"kuhn_poker/advantage/first/turn_{LAST_TURN}/mean"] == 4.0
    assert f"kuhn_poker/advantage/first/turn_{LAST_TURN + 1}/mean" not in found


def test_first_moves_are_shares_of_where_there_was_a_choice():
    forced = turn("pass")._replace(legal=("pass",))
    played = [trajectory(turn("bet"))] * 3 + [trajectory(turn("pass"))] + [trajectory(forced)]
    found = metrics(played, [[0.0]] * 5, CHOICE)
    assert found["kuhn_poker/opening/first/bet"] == 0.75
    assert found["kuhn_poker/opening/first/pass"] == 0.25


def test_what_a_model_writes_cannot_break_a_metrics_name():
    assert tag_part("a/b c\n<i>") == "a_b_c_i"
    assert tag_part("\u202e") == "_"
    assert len(tag_part("a" * 500)) <= 40
