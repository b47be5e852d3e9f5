"""Credit rules against the worked numbers of their papers, and the properties that every rule must have."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from games.errors import UsageError
from learners.advantages import RULES, Credit, rule_named
from learners.trajectories import Trajectory


def trajectory(rewards, role="first", game="kuhn_poker", policy="main", seat=0, match=0):
    turns = (None,) * len(rewards)
    return Trajectory(game, role, policy, seat, match, 0, ("main", "main"), turns, tuple(rewards), sum(rewards))


def test_reinforce_is_the_discounted_reward_to_go():
    advantages, state = RULES["reinforce"]([trajectory([1.0, 0.0, -2.0]), trajectory([3.0])], {}, Credit(gamma=0.5))
    assert advantages == [[0.5, -1.0, -2.0], [3.0]]
    assert state == {}


def test_rae_worked_numbers_trajectory_by_trajectory():
    """b0 = 0; returns 1, -1, 1 with alpha 0.95 give b = 0.05, -0.0025, 0.047625 one after another."""
    batch = [trajectory([r]) for r in (1.0, -1.0, 1.0)]
    advantages, state = RULES["rae"](batch, {}, Credit(fold="trajectory"))
    assert [a for (a,) in advantages] == pytest.approx([1.0, -1.05, 1.0025], abs=1e-12)
    assert state == {"kuhn_poker/first/main": pytest.approx(0.047625, abs=1e-12)}


def test_rae_worked_numbers_with_the_batch_mean():
    """The whole batch is measured from the old b, then b moves once: 0.95 * 0.2 + 0.05 * 1/3."""
    batch = [trajectory([r]) for r in (1.0, -1.0, 1.0)]
    advantages, state = RULES["rae"](batch, {"kuhn_poker/first/main": 0.2}, Credit())
    assert [a for (a,) in advantages] == pytest.approx([0.8, -1.2, 0.8], abs=1e-12)
    assert state == {"kuhn_poker/first/main": pytest.approx(0.19 + 0.05 / 3, abs=1e-12)}


def test_rae_gives_the_whole_return_to_every_turn():
    advantages, _ = RULES["rae"]([trajectory([0.0, 0.0, 2.0]), trajectory([-1.0, 3.0])], {}, Credit())
    assert advantages == [[2.0] * 3, [2.0] * 2]


def test_rae_keeps_a_baseline_for_each_game_role_and_policy():
    batch = [
        trajectory([1.0]),
        trajectory([2.0], role="second"),
        trajectory([3.0], game="leduc_poker"),
        trajectory([4.0], policy="rival"),
    ]
    _, state = RULES["rae"](batch, {}, Credit(decay=0.0))
    assert sorted(state.values()) == [1.0, 2.0, 3.0, 4.0]
    advantages, _ = RULES["rae"](batch, state, Credit(decay=0.0))
    assert advantages == [[0.0]] * 4


def test_rae_leaves_other_baselines_alone():
    state = {"leduc_poker/first/main": 0.7}
    _, after = RULES["rae"]([trajectory([1.0])], state, Credit())
    assert after["leduc_poker/first/main"] == 0.7


def test_a_baseline_converges_to_a_roles_mean_return():
    state = {}
    for _ in range(200):
        _, state = RULES["rae"]([trajectory([-0.25]), trajectory([0.125])], state, Credit())
    assert state["kuhn_poker/first/main"] == pytest.approx(-0.0625, abs=1e-4)


rewards = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=1, max_size=5)
seats = st.integers(0, 4)
batches = st.lists(
    st.builds(
        lambda own, seat, game, policy: trajectory(own, f"seat {seat}", game, policy, seat),
        rewards,
        seats,
        st.sampled_from(["kuhn_poker", "tic_tac_toe"]),
        st.sampled_from(["main", "rival"]),
    ),
    min_size=1,
    max_size=14,
)
rules = st.sampled_from(["mars", "rae", "reinforce"])  # those that need neither groups nor values
states = st.dictionaries(
    st.sampled_from([f"kuhn_poker/seat {seat}/main" for seat in range(3)]), st.floats(-1, 1), max_size=3
)


@given(batches, rules, states, st.randoms(use_true_random=False))
def test_the_order_of_a_batch_changes_nothing(batch, rule, state, rng):
    order = list(range(len(batch)))
    rng.shuffle(order)
    advantages, after = RULES[rule](batch, state, Credit())
    shuffled, shuffled_after = RULES[rule]([batch[i] for i in order], state, Credit())
    for i, shuffled_K in zip(order, shuffled, strict=True):
        assert shuffled_K == pytest.approx(advantages[i], abs=1e-9)
    assert shuffled_after == after


@given(batches, rules, states, st.sampled_from(["batch", "trajectory"]))
def test_one_number_a_turn_and_pure_json_state(batch, rule, state, fold):
    before = copy.deepcopy(state)
    advantages, after = RULES[rule](batch, state, Credit(fold=fold))
    assert [len(own) for own in advantages] == [len(one.turns) for one in batch]
    assert state == before, "the caller's state is not changed in place"
    assert json.loads(json.dumps(after)) == after
    again, after_again = RULES[rule](batch, state, Credit(fold=fold))
    assert (again, after_again) == (advantages, after)


@given(batches, rules, states, batches)
def test_other_roles_in_the_batch_change_nothing(batch, rule, state, others):
    """Padding a batch with other roles' trajectories, however many, leaves a role's advantages alone."""
    others = [one._replace(role="onlooker") for one in others]
    advantages, _ = RULES[rule](batch, state, Credit())
    padded, _ = RULES[rule]([*others, *batch], state, Credit())
    for one, other in zip(padded[len(others) :], advantages, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@given(batches, st.integers(-3, 3))
def test_a_constant_added_to_returns_is_taken_off_by_a_settled_baseline(batch, constant):
    """With a baseline at each role's mean, adding a constant to returns and baseline changes nothing."""
    moved = [
        one._replace(rewards=(one.rewards[0] + constant, *one.rewards[1:]), match_return=one.match_return + constant)
        for one in batch
    ]
    _, settled = RULES["rae"](batch, {}, Credit(decay=0.0))
    _, moved_settled = RULES["rae"](moved, {}, Credit(decay=0.0))
    plain, _ = RULES["rae"](batch, settled, Credit())
    shifted, _ = RULES["rae"](moved, moved_settled, Credit())
    for one, other in zip(plain, shifted, strict=True):
        assert other == pytest.approx(one, abs=1e-9)


@given(batches)
def test_a_settled_baseline_centres_every_role(batch):
    _, settled = RULES["rae"](batch, {}, Credit(decay=0.0))
    advantages, _ = RULES["rae"](batch, settled, Credit())
    sums = {}
    for one, (first, *_) in zip(batch, advantages, strict=True):
        sums[one.game, one.role, one.policy] = sums.get((one.game, one.role, one.policy), 0.0) + first
    assert list(sums.values()) == pytest.approx([0.0] * len(sums), abs=1e-9)


def test_an_unknown_rule_is_told_the_nearest():
    assert rule_named("rae") is RULES["rae"]
    with pytest.raises(UsageError, match=r"reinforc.*reinforce"):
        rule_named("reinforc")
