"""m_grpo: each rollout counts once, however often it called a role; random alignment is on average the weighted one."""

import json
import random
from statistics import fmean
from timeit import timeit

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_batches import quarters, trajectory
from small_models import brief
from small_play import CHOICE, kuhn_pocket, self_play

from learners.advantages import RULES, WEIGHERS, Credit, compute_advantages, weigh_trajectories
from learners.advantages.m_grpo import multiplicities
from learners.batch_loss import BatchLoss
from learners.batching import to_batch
from learners.losses import Surrogate
from learners.normalisation import Normalisation, token_weights
from learners.objective import Objective, Sums

RESAMPLE = Credit(align="resample")


def query(mains, subs, start=0, first=0, role="worker"):
    """Return one query's rollouts: a main trajectory each, and their sub-trajectories, of one turn.

    Matches are numbered from ``first``; sub-trajectories from 1,000 above it.
    """
    batch = [
        trajectory([r], game="chain", role="planner", match=first + k, deal_seed=start) for k, r in enumerate(mains)
    ]
    number = first + 1000
    for k, returns in enumerate(subs):
        for r in returns:
            fields = {"match": number, "parent": first + k, "root": first + k, "deal_seed": start}
            batch.append(trajectory([r], game="step", role=role, **fields))
            number += 1
    return batch


def fixed(d, calls=0, name="step/worker"):
    """Return a state whose window is over."""
    return {"seen": {name: {"iterations": 10, "counts": {}, "d": d}}, "calls": calls}


def weights_of(batch, state, credit=RESAMPLE):
    return WEIGHERS["m_grpo"](batch, state, credit)[0]


def advantages_of(batch):
    return RULES["m_grpo"](batch, {}, Credit())[0]


WORKED = query([1.0, 0.0], [[0.5], [0.1, 0.9, 0.3]])


def test_numbers_worked_by_hand():
    """Weights 2 and 2/3 for d = 2: 0.5 twice and 0.1, 0.9, 0.3 two thirds each have mean 0.46667, spread 0.24267."""
    expected = [[1.0], [-1.0], [0.1374], [-1.5110], [1.7857], [-0.6868]]
    assert advantages_of(WORKED) == [pytest.approx(own, abs=5e-5) for own in expected]
    assert weights_of(WORKED, fixed(2), Credit()) == pytest.approx([1, 1, 2, 2 / 3, 2 / 3, 2 / 3])


def test_rollouts_that_call_never_once_d_times_and_three_times_d():
    """With d = 2: every rollout that called the role has two in all, whichever way."""
    batch = query([0.0] * 4, [[], [1.0], [2.0] * 2, [3.0] * 6])
    assert weights_of(batch, fixed(2), Credit())[4:] == pytest.approx([2, 1, 1, *[1 / 3] * 6])
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
    expected = np.array(weights_of(UNEVEN, fixed(2), Credit())) * advantages
    within_error(drawn * advantages, expected)


def test_the_papers_statistics_of_what_was_drawn_would_be_another_rule():
    """The worked query with d = 2: 0.5 twice beside (0.1, 0.9), (0.1, 0.3) or (0.9, 0.3) has z-scores 0, 0.905, -0.229.

    Their mean is 0.225 and not 0.137: hence the statistics of the expected draw.
    """
    samples = [np.array([0.5, 0.5, *pair]) for pair in ((0.1, 0.9), (0.1, 0.3), (0.9, 0.3))]
    scores = [(0.5 - one.mean()) / one.std() for one in samples]
    assert scores == pytest.approx([0.0, 0.90453, -0.22942], abs=1e-4)
    assert fmean(scores) == pytest.approx(0.2250, abs=1e-4)
    assert advantages_of(WORKED)[2] == [pytest.approx(0.1374, abs=5e-5)]


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


def gradient(lm, trajectories, advantages, name):
    """Return the policy gradient as one vector."""
    batch = to_batch("main", trajectories, advantages, {}, Normalisation(name))
    lm.model.zero_grad()
    losses = BatchLoss(lm, None, batch, Objective(Surrogate("reinforce"), {}), budget=8192)
    for loss in losses.losses(0, Sums()):
        loss.backward()
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()]).double().numpy()


def test_the_gradient_of_the_weighted_loss_is_the_mean_of_ten_thousand_resampled_ones(lm, drawn):
    """A model's gradient is linear in its trajectories, so each needs one pass; two draws are passed whole."""
    played = self_play(lm, len(UNEVEN), CHOICE)[: len(UNEVEN)]
    subs = [
        one._replace(turns=own.turns, rewards=own.rewards)
        for one, own in zip(UNEVEN, played, strict=True)
        if one.root is not None
    ]
    advantages = [[a[0]] * len(one.turns) for one, a in zip(subs, advantages_of(UNEVEN)[-len(subs) :], strict=True)]
    alone = np.array([gradient(lm, [one], [own], "role_mean") for one, own in zip(subs, advantages, strict=True)])

    def shares(weights):
        """Return what each trajectory has of the loss, from the weights of its tokens."""
        weighed = [one._replace(weight=float(weight)) for one, weight in zip(subs, weights, strict=True)]
        return [sum(own) for own in token_weights(weighed, Normalisation("role_mean"))]

    expected = weights_of(UNEVEN, fixed(2), Credit())[-len(subs) :]
    multiples, where = np.unique(drawn[:, -len(subs) :], axis=0, return_inverse=True)
    gradients = np.array([shares(own) for own in multiples]) @ alone
    for weights, combined in ((expected, shares(expected) @ alone), (multiples[0], gradients[0])):
        weighed = [one._replace(weight=float(weight)) for one, weight in zip(subs, weights, strict=True)]
        assert gradient(lm, weighed, advantages, "role_mean") == pytest.approx(combined, abs=1e-6)
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
            own = query(mains, subs, start, first=100 * start, role=f"worker {role}")[rollouts:]
            members += [one._replace(match=one.match + 10_000 * role) for one in own]
        batch += members
    return draw(st.permutations(batch))


def plainly(batch, one):
    """Return a trajectory's z-score by looking at every other one, each weighed by how often its rollout called."""

    def calls(other):
        return sum(o.root == other.root and o.role == other.role for o in batch) if other.root is not None else 1

    mates = [o for o in batch if (o.deal_seed, o.game, o.role) == (one.deal_seed, one.game, one.role)]
    total = sum(1 / calls(o) for o in mates)
    mean = sum(o.match_return / calls(o) for o in mates) / total
    spread = (sum((o.match_return - mean) ** 2 / calls(o) for o in mates) / total) ** 0.5
    return (one.match_return - mean) / (spread + 1e-6) if len({o.match_return for o in mates}) > 1 else 0.0


@settings(max_examples=40)
@given(hierarchies())
def test_the_rule_is_its_formula_in_plain_loops(batch):
    for one, own in zip(batch, advantages_of(batch), strict=True):
        assert own == pytest.approx([plainly(batch, one)], abs=1e-8)


@settings(max_examples=25)
@given(hierarchies(), st.randoms(use_true_random=False), st.sampled_from(["weight", "resample"]))
def test_order_changes_neither_advantages_nor_weights(batch, rng, align):
    credit, state = Credit(align=align), {"seen": {}, "calls": 7}
    order = rng.sample(range(len(batch)), len(batch))
    advantages, weights = advantages_of(batch), weights_of(batch, state, credit)
    shuffled = [batch[i] for i in order]
    assert weights_of(shuffled, state, credit) == [weights[i] for i in order]
    assert advantages_of(shuffled) == [pytest.approx(advantages[i], abs=1e-9) for i in order]


@settings(max_examples=25)
@given(hierarchies(), st.integers(2, 7))
def test_what_a_rollout_repeats_moves_no_statistic(batch, times):
    """One rollout makes every call ``times`` times over, each with its outcome: all advantages stay."""
    louder = list(batch)
    for n in range(1, times):
        louder += [one._replace(match=one.match + 100_000 * n) for one in batch if one.root == 0]
    for own, before in zip(advantages_of(louder), advantages_of(batch), strict=False):
        assert own == pytest.approx(before, abs=1e-9)


@settings(max_examples=25)
@given(hierarchies())
def test_queries_never_meet(batch):
    """Each query alone is credited as it is among the others, and its weighted advantages sum to zero by role."""
    together = advantages_of(batch)
    for start in {one.deal_seed for one in batch}:
        own = [i for i, one in enumerate(batch) if one.deal_seed == start]
        assert advantages_of([batch[i] for i in own]) == [pytest.approx(together[i], abs=1e-9) for i in own]
        for role in {batch[i].role for i in own}:
            members = [i for i in own if batch[i].role == role]
            calls = [sum(batch[j].root == batch[i].root for j in members) for i in members]
            shares = [1.0 if batch[i].root is None else 1 / n for i, n in zip(members, calls, strict=True)]
            total = sum(share * together[i][0] for share, i in zip(shares, members, strict=True))
            assert total == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=25)
@given(hierarchies(), quarters)
def test_a_constant_added_to_a_roles_returns_changes_nothing(batch, constant):
    moved = [one._replace(match_return=one.match_return + constant) for one in batch]
    assert advantages_of(moved) == [pytest.approx(own, abs=1e-9) for own in advantages_of(batch)]


def calling(*counts, first=0):
    """Return a query whose rollouts call so often."""
    return query([0.0] * len(counts), [[0.0] * count for count in counts], first=first)


def test_d_is_the_99th_percentile_of_the_window_and_then_stays():
    """99 rollouts of 2 calls and one of 50: d = 2. One more of 50 in the window moves it; after it nothing does."""
    credit, state = Credit(calibration=2), {}
    steps = [(calling(*[2] * 99, 50, 0, 0), 2), (calling(50), 50), (calling(*[90] * 5), 50), (calling(1), 50)]
    for batch, d in steps:
        _, state = WEIGHERS["m_grpo"](batch, json.loads(json.dumps(state)), credit)
        assert state["seen"]["step/worker"]["d"] == d
    assert state["seen"]["step/worker"] == {"iterations": 2, "counts": {"2": 99, "50": 2}, "d": 50}


def test_a_resumed_run_draws_what_it_would_have_drawn():
    batch, state, found = calling(5, 1, 7, 2, 9, 4, 8), fixed(3), []
    for _ in range(4):
        weights, state = WEIGHERS["m_grpo"](batch, state, RESAMPLE)
        found.append(weights)
    assert len(set(map(tuple, found))) == 4
    resumed = json.loads(json.dumps(fixed(3, calls=2)))
    assert weights_of(batch, resumed) == found[2]


def test_weights_reach_only_the_roles_of_the_rule():
    """The workers are credited by m_grpo, their planners by rae: the two know nothing of each other."""

    def rule_for(game, role):
        return "m_grpo" if role == "worker" else "rae"

    weighed, state = weigh_trajectories(WORKED, rule_for, {"rae": {"a": 1.0}}, Credit())
    assert [one.weight for one in weighed] == pytest.approx([1.0, 1.0, 3.0, 1.0, 1.0, 1.0])
    advantages, after = compute_advantages(weighed, rule_for, state, Credit())
    assert advantages[:3] == [[1.0], [0.0], [pytest.approx(0.1374, abs=5e-5)]]
    assert after["m_grpo"] == state["m_grpo"]
    assert set(after["rae"]) == {"a", "chain/planner/main"}


def test_dropped_trajectories_are_not_in_the_batch(lm):
    first, second = self_play(lm, 2, CHOICE)[:2]
    whole = to_batch("main", [first], [[1.0] * len(first.turns)], {})
    pair = [first, second._replace(weight=0.0)]
    assert to_batch("main", pair, [[1.0] * len(one.turns) for one in pair], {}) == whole


@pytest.mark.parametrize("align", ["weight", "resample"])
def test_ten_thousand_trajectories_of_ten_turns_take_under_a_tenth_of_a_second(align):
    """1,000 rollouts of 8 a query, with 0 to 18 calls each."""
    rng, batch = random.Random(0), []
    for start in range(125):
        subs = [[rng.random() for _ in range(rng.randrange(19))] for _ in range(8)]
        batch += query([rng.random() for _ in range(8)], subs, start, first=start * 8)
    batch = [one._replace(turns=one.turns * 10, rewards=one.rewards * 10) for one in batch][:10_000]
    credit = Credit(align=align)
    assert min(timeit(lambda: RULES["m_grpo"](batch, {}, credit), number=1) for _ in range(20)) < 0.1
    assert min(timeit(lambda: WEIGHERS["m_grpo"](batch, {}, credit), number=1) for _ in range(20)) < 0.1
