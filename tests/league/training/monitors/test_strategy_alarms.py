"""Planted breaks: a policy that collapses to one action, a role starved of signal, a cycle of three."""

import random
from collections import Counter
from types import SimpleNamespace

from league.config.learning import AlarmsConfig, TrainerConfig
from league.training.monitors.alarm import Watched, Win
from league.training.monitors.alarms import check_alarms
from league.training.monitors.strategy_alarms import COLLAPSE, SIGNAL, WINDOW, judge_cycles, read_windows

SETTINGS = AlarmsConfig()
CARDS = ("J", "Q", "K")
RULES = {"signal": SIGNAL, "collapse": COLLAPSE}


def turn(action, card, legal=("pass", "bet"), tool="", logprob=-0.7):
    trace = SimpleNamespace(logprobs=(logprob,))
    return SimpleNamespace(action=action, legal=legal, observation=f"Your card: {card}", tool=tool, trace=trace)


def trajectory(turns, role="first", match_return=1.0):
    return SimpleNamespace(game="kuhn_poker", role=role, policy="main", turns=turns, match_return=match_return)


def iteration(rng, bets, advantage=lambda rng: rng.gauss(0.0, 0.3), role="first"):
    """Return 60 trajectories of one turn and their advantages; ``bets`` is the probability of a bet by card."""
    played = []
    for _ in range(60):
        card = rng.choice(CARDS)
        played.append(trajectory([turn("bet" if rng.random() < bets(card) else "pass", card)], role))
    return played, [[advantage(rng)] for _ in played]


def judge_roles(played, advantages, state):
    """Return the messages of both alarms, where they could be judged, and the new state."""
    watched = Watched({}, SETTINGS, played, advantages, {}, {})
    readings, state = read_windows(watched, state)
    judged = {name: rule.make(window, SETTINGS) for window in readings.values() for name, rule in RULES.items()}
    return {name: message for name, message in judged.items() if message is not None}, state


def rings(rng, iterations, **planted):
    state = {}
    for _ in range(iterations):
        verdicts, state = judge_roles(*iteration(rng, **planted), state)
    return verdicts


def test_a_policy_that_plays_one_action_whatever_it_sees_has_collapsed():
    found = rings(random.Random(0), WINDOW, bets=lambda card: 1.0)
    assert found["collapse"] == "it plays 'bet' in 100.0% of the turns where it could choose."
    assert found["signal"] == ""


def test_a_policy_that_looks_at_its_card_has_not():
    assert rings(random.Random(0), WINDOW, bets=lambda card: float(card == "K"))["collapse"] == ""


def test_a_deterministic_policy_that_alternates_between_iterations_has_not():
    rng, state = random.Random(0), {}
    for number in range(WINDOW):
        verdicts, state = judge_roles(*iteration(rng, lambda _, n=number: float(n % 2)), state)
    assert verdicts["collapse"] == ""


def test_a_role_that_observes_too_little_to_differ_is_not_judged():
    state = {}
    for _ in range(WINDOW):
        played = [trajectory([turn("bet", "J")]) for _ in range(20)]
        verdicts, state = judge_roles(played, [[0.5]] * 20, state)
    assert set(verdicts) == {"signal"}


def test_a_role_whose_turns_have_no_advantage_is_starved():
    found = rings(random.Random(0), WINDOW, bets=lambda _: 0.5, advantage=lambda rng: 0.0)
    assert found["signal"].startswith("only 0.0% of its turns")
    assert found["collapse"] == ""


def test_turns_whose_reply_was_certain_need_no_advantage():
    state = {}
    for _ in range(WINDOW):
        played = [trajectory([turn("bet", card, logprob=-0.001)]) for card in "JQK" for _ in range(8)]
        verdicts, state = judge_roles(played, [[0.0]] * 24, state)
    assert "signal" not in verdicts
    played += [trajectory([turn("pass", "J")])]
    verdicts, _ = judge_roles(played, [[0.0]] * 25, state)
    assert verdicts["signal"].startswith("only 0.0% of its turns")


def test_signal_in_one_turn_of_ten_is_enough():
    rng = random.Random(0)
    found = rings(rng, WINDOW, bets=lambda _: 0.5, advantage=lambda rng: 1.0 if rng.random() < 0.1 else 0.0)
    assert found["signal"] == ""


def test_what_is_no_signal_is_told_by_the_greatest_return_though_it_is_a_loss():
    """Advantages of 1e-4 where every match is lost by 1: a thousandth of that would be the least signal."""
    state = {}
    for _ in range(WINDOW):
        lost = [trajectory([turn("bet", card)], match_return=-1.0) for card in "JQK" for _ in range(8)]
        verdicts, state = judge_roles(lost, [[1e-4]] * len(lost), state)
    assert verdicts["signal"].startswith("only 0.0% of its turns")


def test_no_collapse_is_judged_before_the_window_is_full():
    assert set(rings(random.Random(0), WINDOW - 1, bets=lambda card: 1.0)) == {"signal"}


def test_a_lack_of_signal_is_told_as_soon_as_there_are_enough_turns():
    """An iteration here has 60 turns, and 64 are enough."""
    starved = {"bets": lambda _: 0.5, "advantage": lambda rng: 0.0}
    assert rings(random.Random(0), 1, **starved) == {}
    assert rings(random.Random(0), 2, **starved)["signal"].startswith("only 0.0% of its turns")


def test_a_cycle_of_three_is_named_and_one_of_small_wins_is_not():
    wide = Win("kuhn_poker", ("main-000010", "main-000020", "main-000030"), 0.2)
    narrow = wide._replace(margin=0.01)
    told = judge_cycles([narrow, wide], SETTINGS)
    assert "main-000010 beats main-000020 beats main-000030 beats main-000010" in told
    assert judge_cycles([narrow], SETTINGS) == ""


def test_the_alarms_ring_beside_the_others_and_between_snapshots_a_cycle_rings_on():
    """A cycle is judged only where the population was compared; the iterations after that keep the alarm."""
    context = SimpleNamespace(config=SimpleNamespace(alarms=SETTINGS, trainer=TrainerConfig()), roles={})
    cycle = {"kuhn_poker": [Win("kuhn_poker", ("a", "b", "c"), 0.3)]}
    ringing, numbers, state = check_alarms(context, {}, 10, [], [], {}, cycle)
    assert Counter(alarm.name for alarm in ringing) == {"cycle": 1}
    assert numbers == {"alarms/cycle": 1.0}
    ringing, numbers, state = check_alarms(context, state, 11, [], [], {})
    assert [alarm.since for alarm in ringing] == [10]
    ringing, numbers, state = check_alarms(context, state, 20, [], [], {}, {"kuhn_poker": []})
    assert ringing == []
    assert numbers == {"alarms/cycle": 0.0}
