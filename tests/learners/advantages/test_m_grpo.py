"""m_grpo: each rollout counts once, however often it called a role; random alignment is on average the weighted one."""

import json
import random
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import credit, own_settings, quarters, trajectory
from support.matches.kuhn import CHOICE, kuhn_pocket, self_play
from support.models.pocket import brief
from support.timing import processor_seconds

from learners.advantages import assign_credit
from learners.advantages.m_grpo import Settings, align, multiplicities
from learners.batching import to_batch
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.normalisation import Normalisation, token_weights
from learners.trajectories import Evidence

WEIGHT, RESAMPLE = Settings(), Settings(align="resample")


def query(mains, subs, start=0, first=0, role="worker"):
    """Return one query's rollouts: a main trajectory each, and their sub-trajectories, of one turn.

    Matches are numbered from ``first``; sub-trajectories from 1,000 above it.
    """
    batch = [
        trajectory([r], game="chain", role="planner", match=first + k, deal_seed=start) for k, r in enumerate(mains)
    ]
    calls = [(first + k, r) for k, returns in enumerate(subs) for r in returns]
    for number, (parent, r) in enumerate(calls, first + 1000):
        batch.append(trajectory([r], game="step", role=role, match=number, parent=parent, root=parent, deal_seed=start))
    return batch


def fixed(d, calls=0, name="step/worker"):
    """Return a state whose window is over."""
    return {"seen": {name: {"iterations": 10, "counts": {}, "d": d}}, "calls": calls}


def weights_of(batch, state, settings=RESAMPLE):
    return align(batch, state, settings)[0]


def advantages_of(batch):
    return credit("m_grpo", batch).advantages


WORKED = query([1.0, 0.0], [[0.5], [0.1, 0.9, 0.3]])


def test_numbers_worked_by_hand():
    """Weights 2 and 2/3 for d = 2: 0.5 twice and 0.1, 0.9, 0.3 two thirds each have mean 0.46667, spread 0.24267."""
    expected = [[1.0], [-1.0], [0.1374], [-1.5110], [1.7857], [-0.6868]]
    assert advantages_of(WORKED) == [pytest.approx(advantages_K, abs=5e-5) for advantages_K in expected]
    assert weights_of(WORKED, fixed(2), WEIGHT) == pytest.approx([1, 1, 2, 2 / 3, 2 / 3, 2 / 3])


def test_rollouts_that_call_never_once_d_times_and_three_times_d():
    """With d = 2: every rollout that called the role has two in all, whichever way."""
    batch = query([0.0] * 4, [[], [1.0], [2.0] * 2, [3.0] * 6])
    assert weights_of(batch, fixed(2), WEIGHT)[4:] == pytest.approx([2, 1, 1, *[1 / 3] * 6])
    drawn = weights_of(batch, fixed(2))
    assert drawn[:7] == [1.0] * 4 + [2.0, 1.0, 1.0]
    assert sorted(drawn[7:]) == [0.0] * 4 + [1.0] * 2


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
def test_drawn_multiplicities_are_the_papers(count, size, seed):
    """Too few: all are kept and some repeated. Too many: none is repeated."""
    times = multiplicities(count, size, random.Random(seed))
    assert sum(times) == size
    assert len(times) == count
    assert min(times) >= 1 if count <= size else max(times) <= 1


def within_error(draws, expected):
    """Hold the mean of draws [S, N] to what is expected, within four standard errors; some of them must have one."""
    errors = draws.std(0) / len(draws) ** 0.5
    assert float(errors.max()) > 0
    assert (np.abs(draws.mean(0) - expected) <= 4 * errors + 1e-9).all()


DRAWS = 10_000
UNEVEN = query([1.0, 0.0, 0.5, 1.0], [[0.5], [0.1, 0.9, 0.3], [], [0.2, 0.8, 0.4, 0.1, 0.9, 0.9]])


@pytest.fixture(scope="module")
def drawn():
    """Return 10,000 alignments of the uneven query to d = 2, by the number of the call.  # [S, N]"""
    return np.array([weights_of(UNEVEN, fixed(2, calls)) for calls in range(DRAWS)])


def test_weights_are_the_mean_of_ten_thousand_resamplings(drawn):
    advantages = np.array(advantages_of(UNEVEN))[:, 0]
    expected = np.array(weights_of(UNEVEN, fixed(2), WEIGHT)) * advantages
    within_error(drawn * advantages, expected)


def test_the_papers_statistics_of_what_was_drawn_would_be_another_rule():
    """The worked query with d = 2: 0.5 twice beside (0.1, 0.9), (0.1, 0.3) or (0.9, 0.3) has z-scores 0, 0.905, -0.229.

    Their mean is 0.225 and not 0.137: hence the statistics of the expected draw.
    """
    samples = [np.array([0.5, 0.5, *pair]) for pair in ((0.1, 0.9), (0.1, 0.3), (0.9, 0.3))]
    scores = [(0.5 - sample.mean()) / sample.std() for sample in samples]
    assert scores == pytest.approx([0.0, 0.90453, -0.22942], abs=1e-4)
    assert fmean(scores) == pytest.approx(0.2250, abs=1e-4)
    assert advantages_of(WORKED)[2] == [pytest.approx(0.1374, abs=5e-5)]


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


def gradient(lm, trajectories, advantages, name, weights=None):
    """Return the policy gradient as one vector."""
    batch = to_batch("main", trajectories, advantages, {}, Normalisation(name), weights=weights)
    lm.model.zero_grad()
    losses = BatchLoss(lm, None, batch, Objective(Surrogate("reinforce"), {}), max_tokens=8192)
    for loss in losses.losses(0, MetricSums()):
        loss.backward()
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()]).double().numpy()


def test_the_gradient_of_the_weighted_loss_is_the_mean_of_ten_thousand_resampled_ones(lm, drawn):
    """A model's gradient is linear in its trajectories, so each needs one pass; two draws are passed whole."""
    played = self_play(lm, len(UNEVEN), CHOICE)[: len(UNEVEN)]
    subs = [
        t._replace(turns=source.turns, rewards=source.rewards)
        for t, source in zip(UNEVEN, played, strict=True)
        if t.root is not None
    ]
    advantages = [[a[0]] * len(t.turns) for t, a in zip(subs, advantages_of(UNEVEN)[-len(subs) :], strict=True)]
    alone = np.array(
        [gradient(lm, [t], [advantages_K], "role_mean") for t, advantages_K in zip(subs, advantages, strict=True)]
    )

    def shares(weights):
        """Return each trajectory's share of the loss, from the weights of its tokens."""
        return [
            sum(weights_K) for weights_K in token_weights(subs, Normalisation("role_mean"), list(map(float, weights)))
        ]

    expected = weights_of(UNEVEN, fixed(2), WEIGHT)[-len(subs) :]
    multiples, where = np.unique(drawn[:, -len(subs) :], axis=0, return_inverse=True)
    gradients = np.array([shares(times) for times in multiples]) @ alone
    for weights, combined in ((expected, shares(expected) @ alone), (multiples[0], gradients[0])):
        weighed = gradient(lm, subs, advantages, "role_mean", list(map(float, weights)))
        assert weighed == pytest.approx(combined, abs=1e-6)
    loudest = np.argsort(-gradients.std(0))[:200]  # the components that draws move most
    within_error(gradients[:, loudest][where.ravel()], (shares(expected) @ alone)[loudest])


@st.composite
def hierarchies(draw):
    """Return whole queries: one to three, each with two or more rollouts and one to three sub-roles."""
    batch, rollouts = [], draw(st.integers(2, 3))
    for start in range(draw(st.integers(1, 3))):
        mains = draw(st.lists(quarters, min_size=rollouts, max_size=rollouts))
        members = query(mains, [], start, first=100 * start)
        for role in range(draw(st.integers(1, 3))):
            subs = draw(st.lists(st.lists(quarters, max_size=4), min_size=rollouts, max_size=rollouts))
            sub_trajectories = query(mains, subs, start, first=100 * start, role=f"worker {role}")[rollouts:]
            members += [t._replace(match=t.match + 10_000 * role) for t in sub_trajectories]
        batch += members
    return draw(st.permutations(batch))


def plainly(batch, trajectory):
    """Return a trajectory's z-score by looking at every other one, each weighed by how often its rollout called."""

    def calls(other):
        return sum(o.root == other.root and o.role == other.role for o in batch) if other.root is not None else 1

    mates = [
        o for o in batch if (o.deal_seed, o.game, o.role) == (trajectory.deal_seed, trajectory.game, trajectory.role)
    ]
    total = sum(1 / calls(o) for o in mates)
    mean = sum(o.match_return / calls(o) for o in mates) / total
    spread = (sum((o.match_return - mean) ** 2 / calls(o) for o in mates) / total) ** 0.5
    return (trajectory.match_return - mean) / (spread + 1e-6) if len({o.match_return for o in mates}) > 1 else 0.0


@settings(max_examples=40)
@given(hierarchies())
def test_the_rule_is_its_formula_in_plain_loops(batch):
    for t, advantages_K in zip(batch, advantages_of(batch), strict=True):
        assert advantages_K == pytest.approx([plainly(batch, t)], abs=1e-8)


@settings(max_examples=25)
@given(hierarchies(), st.randoms(use_true_random=False), st.sampled_from([WEIGHT, RESAMPLE]))
def test_order_changes_neither_advantages_nor_weights(batch, rng, settings):
    state = {"seen": {}, "calls": 7}
    order = rng.sample(range(len(batch)), len(batch))
    advantages, weights = advantages_of(batch), weights_of(batch, state, settings)
    shuffled = [batch[i] for i in order]
    assert weights_of(shuffled, state, settings) == [weights[i] for i in order]
    assert advantages_of(shuffled) == [pytest.approx(advantages[i], abs=1e-9) for i in order]


@settings(max_examples=25)
@given(hierarchies(), st.integers(2, 7))
def test_what_a_rollout_repeats_moves_no_statistic(batch, times):
    """One rollout makes every call ``times`` times over, each with its outcome: all advantages stay."""
    louder = list(batch)
    for n in range(1, times):
        louder += [t._replace(match=t.match + 100_000 * n) for t in batch if t.root == 0]
    for after, before in zip(advantages_of(louder), advantages_of(batch), strict=False):
        assert after == pytest.approx(before, abs=1e-9)


@settings(max_examples=25)
@given(hierarchies())
def test_queries_never_meet(batch):
    """Each query alone is credited as it is among the others, and its weighted advantages sum to zero by role."""
    together = advantages_of(batch)
    for start in {t.deal_seed for t in batch}:
        indices = [i for i, t in enumerate(batch) if t.deal_seed == start]
        assert advantages_of([batch[i] for i in indices]) == [pytest.approx(together[i], abs=1e-9) for i in indices]
        for role in {batch[i].role for i in indices}:
            members = [i for i in indices if batch[i].role == role]
            calls = [sum(batch[j].root == batch[i].root for j in members) for i in members]
            shares = [1.0 if batch[i].root is None else 1 / n for i, n in zip(members, calls, strict=True)]
            total = sum(share * together[i][0] for share, i in zip(shares, members, strict=True))
            assert total == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=25)
@given(hierarchies(), quarters)
def test_a_constant_added_to_a_roles_returns_changes_nothing(batch, constant):
    moved = [t._replace(match_return=t.match_return + constant) for t in batch]
    assert advantages_of(moved) == [pytest.approx(advantages_K, abs=1e-9) for advantages_K in advantages_of(batch)]


def calling(*counts, first=0):
    """Return a query whose rollouts call so often."""
    return query([0.0] * len(counts), [[0.0] * count for count in counts], first=first)


def test_d_is_the_99th_percentile_of_the_window_and_then_stays():
    """99 rollouts of 2 calls and one of 50: d = 2. One more of 50 in the window moves it; after it nothing does."""
    settings, state = Settings(calibration=2), {}
    steps = [(calling(*[2] * 99, 50, 0, 0), 2), (calling(50), 50), (calling(*[90] * 5), 50), (calling(1), 50)]
    for batch, d in steps:
        _, state = align(batch, json.loads(json.dumps(state)), settings)
        assert state["seen"]["step/worker"]["d"] == d
    assert state["seen"]["step/worker"] == {"iterations": 2, "counts": {"2": 99, "50": 2}, "d": 50}


def test_a_resumed_run_draws_what_it_would_have_drawn():
    batch, state, drawn_weights = calling(5, 1, 7, 2, 9, 4, 8), fixed(3), []
    for _ in range(4):
        weights, state = align(batch, state, RESAMPLE)
        drawn_weights.append(weights)
    assert len(set(map(tuple, drawn_weights))) == 4
    resumed = json.loads(json.dumps(fixed(3, calls=2)))
    assert weights_of(batch, resumed) == drawn_weights[2]


def test_weights_reach_only_the_roles_of_the_rule():
    """The workers are credited by m_grpo, their planners by rae: the two know nothing of each other."""

    def rule_for(game, role):
        return "m_grpo" if role == "worker" else "rae"

    evidence = [Evidence()] * len(WORKED)
    advantages, weights, state = assign_credit(WORKED, evidence, {"rae": {"a": 1.0}}, rule_for, own_settings)
    assert weights == pytest.approx([1.0, 1.0, 3.0, 1.0, 1.0, 1.0])
    assert advantages[:3] == [[1.0], [0.0], [pytest.approx(0.1374, abs=5e-5)]]
    assert (state["m_grpo"]["calls"], set(state["m_grpo"]["seen"])) == (1, {"step/worker"})
    assert set(state["rae"]) == {"a", "chain/planner/main"}


def test_dropped_trajectories_are_not_in_the_batch(lm):
    pair = self_play(lm, 2, CHOICE)[:2]
    expected = to_batch("main", pair[:1], [[1.0] * len(pair[0].turns)], {})
    assert to_batch("main", pair, [[1.0] * len(t.turns) for t in pair], {}, weights=[1.0, 0.0]) == expected


@pytest.mark.timed
@pytest.mark.parametrize("alignment", ["weight", "resample"])
def test_ten_thousand_trajectories_of_ten_turns_take_under_a_tenth_of_a_second(alignment):
    """1,000 rollouts of 8 a query, with 0 to 18 calls each."""
    rng, batch = random.Random(0), []
    for start in range(125):
        subs = [[rng.random() for _ in range(rng.randrange(19))] for _ in range(8)]
        batch += query([rng.random() for _ in range(8)], subs, start, first=start * 8)
    tens = [t._replace(turns=t.turns * 10, rewards=t.rewards * 10) for t in batch][:10_000]
    assert processor_seconds(lambda: credit("m_grpo", tens, align=alignment), repeats=40) < 0.1
