"""Every credit rule against its formula, written as plain double loops over the batch."""

from statistics import fmean, pstdev
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import batches, credit, taken, trajectory, valued


def to_go(t, k, gamma):
    return sum(gamma ** (j - k) * t.rewards[j] for j in range(k, len(t.rewards)))


def mates(batch, t):
    """Return the trajectories whose returns may be compared with that of t."""

    def start(other):
        return other.game, other.deal_seed, other.role, other.seat, other.policy, other.players

    return [other for other in batch if start(other) == start(t)]


def z_score(value, values):
    spread = pstdev(values)
    return (value - fmean(values)) / (spread + 1e-6) if spread else 0.0


def reinforce(batch, t, k, credit):
    return to_go(t, k, credit.gamma)


def rae(batch, t, k, credit):
    return t.match_return  # the baselines begin at zero


def mars(batch, t, k, credit):
    def credited(other, j):
        return to_go(other, j, credit.gamma) if credit.level == "turn" else other.match_return

    pool = []
    for other in batch:
        same = (other.game, other.policy) == (t.game, t.policy)
        if same and (credit.baseline == "game" or other.role == t.role):
            pool += [credited(other, j) for j in range(len(other.turns))]
    return credited(t, k) - fmean(pool)


def grpo(batch, t, k, credit):
    return z_score(t.match_return, [other.match_return for other in mates(batch, t)])


def dr_grpo(batch, t, k, credit):
    return t.match_return - fmean([other.match_return for other in mates(batch, t)])


def rloo(batch, t, k, credit):
    return t.match_return - fmean([other.match_return for other in mates(batch, t) if other is not t])


def gigpo(batch, t, k, credit):
    same = []
    for other in mates(batch, t):
        same_state = [j for j in range(len(other.turns)) if other.turns[j].observation == t.turns[k].observation]
        same += [to_go(other, j, credit.step_gamma) for j in same_state]
    value = to_go(t, k, credit.step_gamma)
    step = z_score(value, same) if credit.step_spread else value - fmean(same)
    return grpo(batch, t, k, credit) + credit.step_weight * step


def at_grpo(batch, t, k, credit):
    present = [other for other in mates(batch, t) if k < len(other.turns)]
    return z_score(to_go(t, k, credit.gamma), [to_go(other, k, credit.gamma) for other in present])


def mt_grpo(batch, t, k, credit):
    total = 0.0
    for j in range(k, len(t.turns)):
        rewards = [other.rewards[j] for other in mates(batch, t) if j < len(other.turns)]
        z = z_score(t.rewards[j], rewards) if credit.spread else t.rewards[j] - fmean(rewards)
        total += credit.gamma ** (j - k) * z
    return total


def gae_turn(batch, t, k, credit):
    (evidence,) = valued([t])
    values, total = [*evidence.values, 0.0], 0.0
    for step in range(len(t.turns) - k):
        delta = t.rewards[k + step] + credit.gamma * values[k + step + 1] - values[k + step]
        total += (credit.gamma * credit.trace_decay) ** step * delta
    return total


REFERENCES = {
    "reinforce": reinforce,
    "rae": rae,
    "mars": mars,
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "m_grpo": grpo,
    "matpo": grpo,
    "gigpo": gigpo,
    "at_grpo": at_grpo,
    "mt_grpo": mt_grpo,
    "gae_turn": gae_turn,
    "flow_grpo": grpo,
}
numbers = st.builds(
    SimpleNamespace,
    gamma=st.sampled_from([1.0, 0.5, 0.0]),
    baseline=st.sampled_from(["role", "game"]),
    level=st.sampled_from(["turn", "trajectory"]),
    trace_decay=st.sampled_from([1.0, 0.95, 0.0]),
    step_weight=st.sampled_from([1.0, 0.25]),
    step_gamma=st.sampled_from([1.0, 0.95]),
    step_spread=st.booleans(),
    spread=st.booleans(),
)


@pytest.mark.parametrize("rule", sorted(REFERENCES))
@settings(max_examples=25)
@given(batches(), numbers)
def test_a_rule_is_its_formula(rule, batch, chosen):
    advantages, *_ = credit(rule, batch, None, valued(batch), **taken(rule, **vars(chosen)))
    for t, advantages_K in zip(batch, advantages, strict=True):
        expected = [REFERENCES[rule](batch, t, k, chosen) for k in range(len(t.turns))]
        assert advantages_K == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40)
@given(batches(seats=st.just(1)), st.data())
def test_matpo_of_planners_with_workers(planners, data):
    """Every worker turn has the z-score of its planner, found by looking at every trajectory."""
    batch = list(planners)
    for planner in planners:
        for _ in range(data.draw(st.integers(0, 3))):
            turns = data.draw(st.integers(0, 3))
            fields = {"match": 1000 + len(batch), "deal_seed": 1000 + len(batch), "root": planner.match}
            batch.append(trajectory([0.0] * turns, role="worker", **fields))
    batch = data.draw(st.permutations(batch))
    advantages, *_ = credit("matpo", batch)
    for t, advantages_K in zip(batch, advantages, strict=True):
        planner = next(other for other in planners if other.match in (t.match, t.root))
        assert advantages_K == pytest.approx([grpo(planners, planner, 0, None)] * len(t.turns), abs=1e-9)


@given(batches())
def test_rae_folded_by_trajectory_is_a_loop(batch):
    """The paper's loop: each return is measured from its role's baseline, and then moves it."""
    advantages, _, state = credit("rae", batch, fold="trajectory")
    baselines = {}
    for t, advantages_K in zip(batch, advantages, strict=True):
        if t.turns:
            key = f"{t.game}/{t.role}/{t.policy}"
            before = baselines.get(key, 0.0)
            assert advantages_K == pytest.approx([t.match_return - before] * len(t.turns), abs=1e-9)
            baselines[key] = 0.95 * before + 0.05 * t.match_return
    assert state == pytest.approx(baselines, abs=1e-9)
