"""What must hold for every credit rule, whatever the batch: seats, turns and groups differ by role."""

import copy
import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import batches, credit, quarters, taken, trajectory, turn, valued

from arena.records import EndReason, Episode, MatchRequest, TokenTrace
from learners.advantages import RULES
from learners.trajectories import Evidence, to_trajectories

# Some rules have tests of their own: advantage alignment pairs the two seats of a match, which these batches need not
# have, and regret asks what other actions would have paid. So have malt, for trees, cory, for whole teams, and spo,
# which looks at no return.
NAMES = sorted(RULES.keys() - {"advantage_alignment", "regret", "malt", "cory", "spo"})
GROUPED = ["grpo", "dr_grpo", "rloo", "m_grpo", "matpo", "gigpo", "at_grpo", "mt_grpo", "flow_grpo", "gdpo"]
BY_REWARD = "mt_grpo"  # normalises rewards before it sums them, and so has not all properties of the others

every_rule = pytest.mark.parametrize("rule", NAMES)
few = settings(max_examples=8)


def credited(rule, batch, evidence=None, **settings):
    """Return the advantages; step groups do not discount."""
    evidence = valued(batch) if evidence is None else evidence
    return credit(rule, batch, None, evidence, **taken(rule, step_gamma=1.0), **settings)[0]


def near(advantages):
    return [pytest.approx(advantages_K, abs=1e-9) for advantages_K in advantages]


def by_role(batch, advantages):
    """Return all advantages of each (game, role, policy)."""
    pooled = {}
    for t, advantages_K in zip(batch, advantages, strict=True):
        pooled.setdefault((t.game, t.role, t.policy), []).append(advantages_K)
    return pooled


@every_rule
@few
@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_a_batch_changes_nothing(rule, batch, rng):
    order = rng.sample(range(len(batch)), len(batch))
    advantages = credited(rule, batch)
    assert credited(rule, [batch[i] for i in order]) == near([advantages[i] for i in order])


@every_rule
@few
@given(batches())
def test_padding_with_another_role_changes_nothing(rule, batch):
    onlookers = [t._replace(role=f"onlooker {t.seat}") for t in batch]
    assert credited(rule, [*onlookers, *batch])[len(batch) :] == near(credited(rule, batch))


@every_rule
@few
@given(batches(), st.sampled_from(["batch", "trajectory"]))
def test_one_number_a_turn_pure_and_plain(rule, batch, fold):
    before, state = copy.deepcopy(batch), {"kuhn_poker/seat 0/main": 0.5}
    evidence, chosen = valued(batch), taken(rule, fold=fold)
    advantages, weights, after = credit(rule, batch, state, evidence, **chosen)
    assert len(weights) == len(batch)
    assert [len(advantages_K) for advantages_K in advantages] == [len(t.turns) for t in batch]
    assert all(type(a) is float for advantages_K in advantages for a in advantages_K)
    assert (batch, state) == (before, {"kuhn_poker/seat 0/main": 0.5})
    assert json.loads(json.dumps(after)) == after
    assert credit(rule, batch, state, evidence, **chosen) == (advantages, weights, after)


@every_rule
def test_an_empty_batch_has_no_advantages(rule):
    assert credited(rule, []) == []


@pytest.mark.parametrize("rule", ["mars", *(name for name in GROUPED if name != BY_REWARD)])
@few
@given(batches(least_turns=1), st.lists(quarters, min_size=5, max_size=5))
def test_a_constant_added_to_a_roles_returns_changes_nothing(rule, batch, constants):
    """Each role has its own constant; it comes with the last turn, so that every turn has it still to go."""

    def moved(trajectory):
        extra = constants[trajectory.seat]
        rewards = (*trajectory.rewards[:-1], trajectory.rewards[-1] + extra)
        return trajectory._replace(rewards=rewards, match_return=trajectory.match_return + extra)

    assert credited(rule, [moved(t) for t in batch]) == near(credited(rule, batch))


@pytest.mark.parametrize("level", ["turn", "trajectory"])
@few
@given(batches())
def test_mars_has_mean_zero_over_the_turns_of_each_role(level, batch):
    for advantages in by_role(batch, credited("mars", batch, level=level)).values():
        assert sum(a for advantages_K in advantages for a in advantages_K) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rule", GROUPED)
@few
@given(batches(least_turns=1))
def test_group_rules_have_mean_zero_for_each_role(rule, batch):
    """Over trajectories; at_grpo, and gigpo's step groups, over turns."""
    if rule == "gigpo":
        trajectories = credited("grpo", batch)
        advantages = credited(rule, batch)
        pairs = zip(advantages, trajectories, strict=True)
        batch_sums = by_role(batch, [[a - b for a, b in zip(*pair, strict=True)] for pair in pairs])
    else:
        batch_sums = by_role(batch, credited(rule, batch))
    for advantages in batch_sums.values():
        by_trajectory = rule not in ("gigpo", "at_grpo")
        assert sum(
            a for advantages_K in advantages for a in (advantages_K[:1] if by_trajectory else advantages_K)
        ) == pytest.approx(0.0, abs=1e-9)


def test_credit_by_turn_index_rewards_ending_where_nothing_is_gained_by_it():
    """All matches earn 1; those that end early have credit for it, and those that continue are blamed."""
    batch = [trajectory([1.0]), trajectory([0.0, 1.0])]
    assert credited(BY_REWARD, batch) == [pytest.approx(row, abs=1e-5) for row in ([1.0], [-1.0, 0.0])]
    assert credited("at_grpo", batch) == [[0.0], [0.0, 0.0]]


@pytest.mark.parametrize("rule", [name for name in NAMES if name != BY_REWARD])
@few
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from("ab")), min_size=2, max_size=8), quarters)
def test_nothing_drifts_with_the_number_of_remaining_turns(rule, members, outcome):
    """All matches end alike, after 1 to 6 turns; rewards before the end are zero: no turn differs from another."""
    batch = [trajectory((*[0.0] * (turns - 1), outcome), states=(state,) * turns) for turns, state in members]
    evidence = [Evidence(values=(outcome,) * turns, contributions=(0.0,) * turns) for turns, _ in members]
    advantages = [a for advantages_K in credited(rule, batch, evidence) for a in advantages_K]
    expected = outcome if rule in ("reinforce", "rae") else 0.0
    assert advantages == [expected] * len(advantages)


@pytest.mark.parametrize(
    "rule", ["reinforce", "rae", "mars", "grpo", "dr_grpo", "rloo", "m_grpo", "matpo", "flow_grpo"]
)
@few
@given(st.lists(st.tuples(st.integers(1, 6), quarters), min_size=2, max_size=8))
def test_turns_of_a_match_that_pays_at_its_end_have_one_advantage(rule, members):
    batch = [trajectory((*[0.0] * (turns - 1), outcome)) for turns, outcome in members]
    for advantages_K in credited(rule, batch):
        assert advantages_K == [advantages_K[0]] * len(advantages_K)


@pytest.mark.parametrize("rule", GROUPED)
@few
@given(st.floats(-10, 10, allow_nan=False), st.integers(2, 9))
def test_a_group_without_spread_has_zeros(rule, outcome, size):
    """Exact zeros also where the mean of equal numbers would round."""
    assert credited(rule, [trajectory([0.0, outcome])] * size) == [[0.0, 0.0]] * size


@every_rule
@few
@given(batches(), st.integers(1, 40))
def test_how_many_tokens_a_reply_has_changes_nothing(rule, batch, tokens):
    def split(t):
        ids = tuple(range(tokens))
        trace = TokenTrace("main", ids, ids, (-0.1,) * tokens, None)
        return t._replace(turns=tuple(turn._replace(trace=trace) for turn in t.turns))

    assert credited(rule, [split(t) for t in batch]) == credited(rule, batch)


@every_rule
@few
@given(batches(), st.integers(2, 5))
def test_a_batch_repeated_is_credited_as_before(rule, batch, times):
    """Every match played several times over: baselines of the batch do not move. (rloo's others are more.)"""
    advantages = credited(rule, [*batch] * times)
    shrink = 1.0
    if rule == "rloo":
        groups = {}
        for t in batch:
            groups.setdefault((t.deal_seed, t.seat), []).append(t)
        size = len(next(iter(groups.values())))
        shrink = (size * times / (size * times - 1)) / (size / (size - 1))
    expected = [[a * shrink for a in advantages_K] for advantages_K in credited(rule, batch)]
    assert advantages == near(expected * times)


def test_advantages_stay_with_turns_when_seats_alternate_unevenly_and_leave_early():
    """Seat 0 speaks, seat 1 answers, seat 0 speaks twice more; seat 2 never comes to its turn."""
    roles = [SimpleNamespace(name=f"seat {seat}", policy="main") for seat in range(3)]
    request = MatchRequest(0, "talk", 1, 0, ("main",) * 3, (True,) * 3)
    turns = (turn(0.5, "a"), turn(-2.0, "b", seat=1), turn(0.25, "c"), turn(1.0, "d"))
    episode = Episode(request, turns, (1.75, -2.0, 0.25), EndReason.FINISHED)
    batch = to_trajectories([episode, episode], lambda _: roles, {"talk": 1.0})
    assert [t.turns for t in batch[:3]] == [(turns[0], turns[2], turns[3]), (turns[1],), ()]
    assert credited("reinforce", batch)[:3] == [[1.75, 1.25, 1.0], [-2.0], []]
    mean = (1.75 + 1.25 + 1.0) / 3
    assert credited("mars", batch)[:3] == near([[1.75 - mean, 1.25 - mean, 1.0 - mean], [0.0], []])
    for rule in GROUPED:
        assert credited(rule, batch) == [[0.0] * 3, [0.0], []] * 2, "both matches went alike"
