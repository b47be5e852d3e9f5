"""Credit by role: every rule has its own trajectories and state, and every turn gets one number. And it is quick."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import batches, credit, own_settings, trajectory, turn
from support.timing import processor_seconds

from games.common.errors import UsageError
from games.common.section import Section
from learners.advantages import DEFAULT_RULE, RULES, assign_credit, forget_policy, rule_metrics
from learners.advantages.rule import CreditRule, Need, unweighted
from learners.trajectories import Evidence


def assigned(batch, rule_for, state):
    return assign_credit(batch, [Evidence()] * len(batch), state, rule_for, own_settings)


@settings(max_examples=40)
@given(batches(), st.lists(st.sampled_from(["reinforce", "rae", "mars", "grpo"]), min_size=5, max_size=5))
def test_each_role_is_credited_by_its_rule_alone(batch, rules):
    def rule_for(game, role):
        return rules[int(role.removeprefix("seat "))]

    advantages, weights, state = assigned(batch, rule_for, {})
    assert weights == [1.0] * len(batch)
    for rule in set(rules):
        indices = [i for i, t in enumerate(batch) if rule_for(t.game, t.role) == rule]
        alone, _, after = credit(rule, [batch[i] for i in indices])
        assert [advantages[i] for i in indices] == alone
        if indices:
            assert state[rule] == after
    assert set(state) == {rule_for(t.game, t.role) for t in batch}


def test_the_rule_is_asked_by_game_and_role():
    batch = [trajectory([1.0], game=game, role=role) for game in ("kuhn_poker", "go") for role in ("first", "second")]
    calls = []

    def rule_for(game, role):
        calls.append((game, role))
        return "reinforce"

    assigned(batch, rule_for, {})
    assert sorted(calls) == [("go", "first"), ("go", "second"), ("kuhn_poker", "first"), ("kuhn_poker", "second")]


def test_states_stay_apart_and_move_on():
    """The baseline goes 0, 0.05, 0.0975; what other rules remember is not touched."""
    state = {"other": {"kuhn_poker/first/main": 7.0}}
    for expected in (1.0, 0.95, 0.9025):
        advantages, _, state = assigned([trajectory([1.0])], lambda *_: "rae", state)
        assert advantages == [[pytest.approx(expected)]]
    assert state["other"] == {"kuhn_poker/first/main": 7.0}
    assert state["rae"] == {"kuhn_poker/first/main": pytest.approx(0.142625)}


@pytest.mark.parametrize("returned", [[], [1.0], [1.0, 2.0, 3.0]])
def test_a_rule_that_forgets_a_turn_is_refused(monkeypatch, returned):
    faulty = CreditRule(lambda trajectories, evidence, state, settings: unweighted([returned], state), Section)
    monkeypatch.setitem(RULES, "faulty", faulty)
    with pytest.raises(ValueError, match=rf"'faulty' returned {len(returned)} advantages for the 2 turns of first"):
        assigned([trajectory([0.0, 1.0])], lambda *_: "faulty", {})


def test_an_unknown_rule_is_refused():
    with pytest.raises(UsageError, match=r"'gpro'.*grpo"):
        assigned([trajectory([0.0])], lambda *_: "gpro", {})


def test_what_rules_need():
    needing = {need: {name for name, rule in RULES.items() if need in rule.needs} for need in Need}
    assert needing == {
        Need.GROUPS: {
            *("grpo", "dr_grpo", "rloo", "m_grpo", "matpo", "cory", "gigpo", "at_grpo", "mt_grpo", "flow_grpo"),
            *("dapo", "gdpo", "advantage_alignment", "spo"),
        },
        Need.TREE: {"malt"},
        Need.VALUES: {"gae_turn"},
        Need.CONTRIBUTIONS: {"contribution"},
        Need.COUNTERFACTUALS: {"regret"},
        Need.PREFERENCES: {"spo"},
    }
    assert DEFAULT_RULE in RULES


def test_every_setting_says_what_it_means():
    fields = {(name, key): field for name, rule in RULES.items() for key, field in rule.settings.model_fields.items()}
    assert [where for where, field in fields.items() if not field.description] == []


def test_a_role_with_settings_of_its_own_is_credited_by_itself_and_is_forgotten_with_its_policy():
    batch = [trajectory((1.0,), role=role, match=match) for match in range(2) for role in ("first", "second")]
    faster = RULES["rae"].settings(decay=0.5)

    def settings_for(_game, role):
        return faster if role == "second" else None

    state = {}
    for _ in range(2):
        credited = assign_credit(batch, [Evidence()] * 4, state, lambda *_: "rae", own_settings, settings_for)
        state = credited.state
    assert [row[0] for row in credited.advantages] == pytest.approx([0.95, 0.5, 0.95, 0.5])
    assert sorted(state) == ["rae", "rae@kuhn_poker/second"]
    assert all(part == {} for part in forget_policy(state, "main").values())


def test_dapo_leaves_out_groups_that_teach_nothing_and_says_how_many_stay():
    groups = {0: (1.0, -1.0), 1: (1.0, 1.0), 2: (0.5, 0.5), 3: (1.0, 0.0)}
    batch = [
        trajectory((total,), deal_seed=start, match=2 * start + place)
        for start, totals in groups.items()
        for place, total in enumerate(totals)
    ]
    advantages, weights, _ = credit("dapo", batch)
    assert weights == [1, 1, 0, 0, 0, 0, 1, 1]
    assert [row[0] for row in advantages] == [row[0] for row in credit("grpo", batch).advantages]
    credited = assign_credit(batch, [Evidence()] * 8, {}, lambda *_: "dapo", own_settings)
    assert rule_metrics(batch, credited, lambda *_: "dapo") == {"credit/dapo/kept": 0.5}
    assert credit("dapo", batch[2:6]).weights == [1.0] * 4  # where none differs, none is left out


def test_weights_reach_the_trajectories_of_their_rule(monkeypatch):
    """Roles alternate in the batch: each trajectory has the weight that its own rule gave it."""

    def half(trajectories, evidence, state, settings):
        return unweighted([[0.0] * len(t.turns) for t in trajectories], state)._replace(
            weights=[0.5 + t.match for t in trajectories]
        )

    monkeypatch.setitem(RULES, "half", CreditRule(half, Section))
    batch = [trajectory([1.0], role=role, match=match) for match in range(3) for role in ("first", "second")]
    credited = assigned(batch, lambda _, role: "half" if role == "second" else "reinforce", {})
    assert credited.weights == [1.0, 0.5, 1.0, 1.5, 1.0, 2.5]


@cache
def ten_thousand(turns=10):
    """Return both seats of 5,000 matches of ten turns a seat, in groups of eight."""
    rng = random.Random(0)
    batch = []
    for match in range(5000):
        for seat in range(2):
            rewards = [rng.choice([0.0, 0.0, 0.5, -1.0]) for _ in range(turns)]
            turns_K = tuple(turn(r, f"turn {k}: {rng.randrange(3)}", seat) for k, r in enumerate(rewards))
            fields = {"role": f"seat {seat}", "seat": seat, "match": match, "deal_seed": match // 8}
            batch.append(trajectory(rewards, **fields)._replace(turns=turns_K))
    return batch


@pytest.mark.timed
@pytest.mark.parametrize("rule", sorted(RULES.keys() - {"gae_turn", "contribution", "regret", "malt", "spo"}))
def test_ten_thousand_trajectories_of_ten_turns_take_under_a_tenth_of_a_second(rule):
    """Processor time, once in several runs: other work must not count. (Others need a critic, judge or game first.)"""
    batch = ten_thousand()
    assert processor_seconds(lambda: credit(rule, batch), repeats=40) < 0.1
