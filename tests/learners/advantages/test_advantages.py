"""Credit rules against the worked numbers of their papers, and the properties that every rule must have."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learning.trajectories import credit, taken

from games.common.errors import UsageError
from learners.advantages import RULES
from learners.trajectories import Trajectory


def trajectory(rewards, role="first", game="kuhn_poker", policy="main", seat=0, match=0):
    turns = (None,) * len(rewards)
    return Trajectory(game, role, policy, seat, match, 0, ("main", "main"), turns, tuple(rewards), sum(rewards))


def test_reinforce_is_the_discounted_reward_to_go():
    advantages, _, state = credit("reinforce", [trajectory([1.0, 0.0, -2.0]), trajectory([3.0])], gamma=0.5)
    assert advantages == [[0.5, -1.0, -2.0], [3.0]]
    assert state == {}


def test_rae_worked_numbers_trajectory_by_trajectory():
    """b0 = 0; returns 1, -1, 1 with alpha 0.95 give b = 0.05, -0.0025, 0.047625 one after another."""
    batch = [trajectory([r]) for r in (1.0, -1.0, 1.0)]
    advantages, _, state = credit("rae", batch, fold="trajectory")
    assert [a for (a,) in advantages] == pytest.approx([1.0, -1.05, 1.0025], abs=1e-12)
    assert state == {"kuhn_poker/first/main": pytest.approx(0.047625, abs=1e-12)}


def test_rae_worked_numbers_with_the_batch_mean():
    """The whole batch is measured from the old b, then b moves once: 0.95 * 0.2 + 0.05 * 1/3."""
    batch = [trajectory([r]) for r in (1.0, -1.0, 1.0)]
    advantages, _, state = credit("rae", batch, {"kuhn_poker/first/main": 0.2})
    assert [a for (a,) in advantages] == pytest.approx([0.8, -1.2, 0.8], abs=1e-12)
    assert state == {"kuhn_poker/first/main": pytest.approx(0.19 + 0.05 / 3, abs=1e-12)}


def test_rae_gives_the_whole_return_to_every_turn():
    advantages, *_ = credit("rae", [trajectory([0.0, 0.0, 2.0]), trajectory([-1.0, 3.0])])
    assert advantages == [[2.0] * 3, [2.0] * 2]


def test_rae_keeps_a_baseline_for_each_game_role_and_policy():
    batch = [
        trajectory([1.0]),
        trajectory([2.0], role="second"),
        trajectory([3.0], game="leduc_poker"),
        trajectory([4.0], policy="rival"),
    ]
    *_, state = credit("rae", batch, decay=0.0)
    assert sorted(state.values()) == [1.0, 2.0, 3.0, 4.0]
    advantages, *_ = credit("rae", batch, state, decay=0.0)
    assert advantages == [[0.0]] * 4


def test_rae_leaves_other_baselines_alone():
    state = {"leduc_poker/first/main": 0.7}
    *_, after = credit("rae", [trajectory([1.0])], state)
    assert after["leduc_poker/first/main"] == 0.7


def test_a_baseline_converges_to_a_roles_mean_return():
    state = {}
    for _ in range(200):
        *_, state = credit("rae", [trajectory([-0.25]), trajectory([0.125])], state)
    assert state["kuhn_poker/first/main"] == pytest.approx(-0.0625, abs=1e-4)


rewards = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=1, max_size=5)
seats = st.integers(0, 4)
batches = st.lists(
    st.builds(
        lambda rewards, seat, game, policy: trajectory(rewards, f"seat {seat}", game, policy, seat),
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
    advantages, _, after = credit(rule, batch, state)
    shuffled, _, shuffled_after = credit(rule, [batch[i] for i in order], state)
    for i, shuffled_K in zip(order, shuffled, strict=True):
        assert shuffled_K == pytest.approx(advantages[i], abs=1e-9)
    assert shuffled_after == after


@given(batches, rules, states, st.sampled_from(["batch", "trajectory"]))
def test_one_number_a_turn_and_pure_json_state(batch, rule, state, fold):
    before = copy.deepcopy(state)
    advantages, _, after = credit(rule, batch, state, **taken(rule, fold=fold))
    assert [len(advantages_K) for advantages_K in advantages] == [len(t.turns) for t in batch]
    assert state == before, "the caller's state is not changed in place"
    assert json.loads(json.dumps(after)) == after
    again, _, after_again = credit(rule, batch, state, **taken(rule, fold=fold))
    assert (again, after_again) == (advantages, after)


@given(batches, rules, states, batches)
def test_other_roles_in_the_batch_change_nothing(batch, rule, state, onlookers):
    """Padding a batch with other roles' trajectories, however many, leaves a role's advantages alone."""
    onlookers = [t._replace(role="onlooker") for t in onlookers]
    advantages, *_ = credit(rule, batch, state)
    padded, *_ = credit(rule, [*onlookers, *batch], state)
    for padded_K, advantages_K in zip(padded[len(onlookers) :], advantages, strict=True):
        assert padded_K == pytest.approx(advantages_K, abs=1e-9)


@given(batches, st.integers(-3, 3))
def test_a_constant_added_to_returns_is_taken_off_by_a_settled_baseline(batch, constant):
    """With a baseline at each role's mean, adding a constant to returns and baseline changes nothing."""
    moved = [
        t._replace(rewards=(t.rewards[0] + constant, *t.rewards[1:]), match_return=t.match_return + constant)
        for t in batch
    ]
    *_, settled = credit("rae", batch, decay=0.0)
    *_, moved_settled = credit("rae", moved, decay=0.0)
    plain, *_ = credit("rae", batch, settled)
    shifted, *_ = credit("rae", moved, moved_settled)
    for plain_K, shifted_K in zip(plain, shifted, strict=True):
        assert shifted_K == pytest.approx(plain_K, abs=1e-9)


@given(batches)
def test_a_settled_baseline_centres_every_role(batch):
    *_, settled = credit("rae", batch, decay=0.0)
    advantages, *_ = credit("rae", batch, settled)
    sums = {}
    for t, (first, *_) in zip(batch, advantages, strict=True):
        sums[t.game, t.role, t.policy] = sums.get((t.game, t.role, t.policy), 0.0) + first
    assert list(sums.values()) == pytest.approx([0.0] * len(sums), abs=1e-9)


def test_an_unknown_rule_is_told_the_nearest():
    assert RULES["rae"] is RULES["rae"]
    with pytest.raises(UsageError, match=r"reinforc.*reinforce"):
        RULES["reinforc"]
