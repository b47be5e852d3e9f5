"""Preferences between siblings: pairs by hand, the loss by hand, by its slope, merged or not, and a run that learns."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning.slopes import gradient, move, norm_and_rise
from support.learning.trees import tree
from support.matches.kuhn import CHOICE, FREE, engine_with, kuhn_pocket, played, roles_for
from support.models.pocket import brief, copied
from torch.nn import functional

from arena.records import MatchRequest
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from learners.advantages.trees import flat_siblings, sibling_pairs
from learners.batching import pack
from learners.losses.batch_loss import BatchLoss
from learners.losses.dpo import dpo_loss, paired_replies
from learners.losses.objective import Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.trajectories import to_trajectories

HALF = {"relay_arithmetic": 0.5}
DPO = Objective(Surrogate("dpo", {"dpo_beta": 0.3}), {})


def strip_thoughts(batch, n=2):
    """Return a tree whose siblings all say something else."""
    return [
        t._replace(turns=tuple(turn._replace(reply=str(leaf // n ** (2 - t.seat) % n)) for turn in t.turns))
        for t, leaf in zip(batch, (leaf for leaf in range(len(batch) // 3) for _ in range(3)), strict=True)
    ]


def test_pairs_of_a_tree_worked_by_hand():
    """Leaves 1 1 | 1 0 || 0 0 | 1 0: answers 3/4, 1/4; critiques 1, 1/2, 0, 1/2, of which only the first is good."""
    batch = strip_thoughts(tree([1, 1, 1, 0, 0, 0, 1, 0]))
    found_pairs = [(batch[a].role, batch[a].match, batch[b].match) for a, b in sibling_pairs(batch, HALF)]
    assert sorted(found_pairs) == [
        ("generator", 0, 4),
        ("refiner", 2, 3),
        ("refiner", 6, 7),
        ("verifier", 0, 2),  # 1 before 1/2; 1/2 before 0 is no pair: neither is good
    ]


def test_siblings_alike_in_value_or_in_words_make_no_pair():
    assert sibling_pairs(strip_thoughts(tree([1.0] * 8)), HALF) == []
    assert sibling_pairs(strip_thoughts(tree([0.0] * 8)), HALF) == []
    assert sibling_pairs(tree([1, 1, 1, 0, 0, 0, 1, 0]), HALF) == [], "all say nothing"


def test_a_seat_that_spoke_twice_is_refused():
    batch = [t._replace(turns=t.turns * 2) for t in strip_thoughts(tree([1, 0] * 4))]
    with pytest.raises(UsageError, match=r"seats that speak once, but refiner .* has 2 turns"):
        sibling_pairs(batch, HALF)


@given(st.integers(2, 3), st.lists(st.integers(0, 1), min_size=27, max_size=27), st.randoms())
def test_pairs_are_the_plain_ones_whatever_the_order(n, leaves, rng):
    batch = strip_thoughts(tree(leaves[: n**3], n), n)
    rng.shuffle(batch)

    def path(t):
        return (t.match // n // n, t.match // n % n, t.match % n)[: t.seat + 1]

    def value(prefix):
        below = [
            leaves[leaf] for leaf in range(n**3) if (leaf // n // n, leaf // n % n, leaf % n)[: len(prefix)] == prefix
        ]
        return sum(below) / len(below)

    prefixes = [p for depth in (1, 2, 3) for p in itertools.product(range(n), repeat=depth)]
    expected = {
        (a, b)
        for a in prefixes
        for b in prefixes
        if a[:-1] == b[:-1] and len(a) == len(b) and value(a) > 0.5 >= value(b)
    }
    found_pairs = [(path(batch[a]), path(batch[b])) for a, b in sibling_pairs(batch, HALF)]
    assert set(found_pairs) == expected
    assert len(found_pairs) == len(expected)


def test_flat_siblings_are_those_of_equal_value():
    """The generator's two are worth 1/2 both though their leaves differ; of the verifier's pairs one is flat."""
    batch = tree([1, 0, 1, 0, 1, 1, 0, 0])
    game = "relay_arithmetic"
    assert flat_siblings(batch) == {(game, "generator"): (1, 1), (game, "verifier"): (1, 2), (game, "refiner"): (2, 4)}


def test_the_loss_worked_by_hand():
    """Beta is 0.5: log 2 where the policy is the reference; margins of 2 nats to either side; slopes -beta sigma."""
    chosen = torch.tensor([0.0, 1.5, -1.5], requires_grad=True)
    loss = dpo_loss(chosen, torch.tensor([0.0, -0.5, 0.5]), 0.5)
    assert loss.tolist() == pytest.approx([math.log(2), math.log(1 + math.exp(-1)), math.log(1 + math.e)])
    loss.sum().backward()
    assert chosen.grad.tolist() == pytest.approx([-0.25, -0.5 / (1 + math.e), -0.5 / (1 + math.exp(-1))])


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def batch(lm, request):
    """Return first turns of Kuhn poker, and pairs of those that were asked the same."""
    roles, deals = roles_for(**request.param), 4
    requests = [
        MatchRequest(i, "kuhn_poker", i % deals, derive_seed(5, i), ("main", "main"), (True, True)) for i in range(32)
    ]
    episodes = played(engine_with(main=lm), requests, 32, roles)
    trajectories = [
        t._replace(turns=t.turns[:1], rewards=t.rewards[:1])
        for t in to_trajectories(episodes, lambda _: roles, {"kuhn_poker": 1.0})
        if t.seat == 0
    ]
    pairs = [
        (i, j)
        for i, a in enumerate(trajectories)
        for j, b in enumerate(trajectories)
        if (i + j) % 3 == 0
        and a.turns[0].trace.prompt_ids == b.turns[0].trace.prompt_ids
        and a.turns[0].reply != b.turns[0].reply
    ]
    assert len(pairs) > 20
    return trajectories, pairs


def packed(batch, **options):
    trajectories, pairs = batch
    weights = {"kuhn_poker": 2.0}
    rows = pack("main", trajectories, [[0.0] for _ in trajectories], weights, **options)
    return rows.batch._replace(terms={"dpo": paired_replies(rows, trajectories, pairs, weights)})


def losses_of(student, rows, objective=DPO, **cut):
    return BatchLoss(student, None, rows, objective, **{"max_tokens": 8192, **cut}, reference=kuhn_pocket(2))


def moved_gradient(lm, rows, **cut):
    student, sums = copied(lm), MetricSums()
    losses = losses_of(student, rows, **cut)
    losses.record_old(MetricSums())
    move(student)
    return *gradient(student, losses.losses(0, sums)), sums


@torch.no_grad()
def plainly(lm, batch):
    """Return the loss pair by pair, as the paper writes it."""
    trajectories, pairs = batch
    reference = kuhn_pocket(2)
    logp = {}
    for model in (lm, reference):
        for index, t in enumerate(trajectories):
            trace = t.turns[0].trace
            if trace.mask is not None:
                tries = [model.trie(trace.mask)]
                (chunk,) = model.plan_choice([trace.prompt_ids], tries, 8192)
                own_logp = model.choice_logprobs(chunk, tries, 1.0).replies[0, trace.mask.index(t.turns[0].reply)]
            else:
                (chunk,) = model.plan([trace.prompt_ids], [(trace.reply_ids,)], 8192)
                scores = model.reply_logits(chunk, [trace.reply_ids])[0].log_softmax(-1)
                own_logp = scores.gather(1, torch.tensor(trace.reply_ids)[:, None]).sum()
            logp[model, index] = float(own_logp)
    margins = [(logp[lm, a] - logp[reference, a]) - (logp[lm, b] - logp[reference, b]) for a, b in pairs]
    losses = [-float(functional.logsigmoid(torch.tensor(0.3 * margin))) for margin in margins]
    return sum(losses) / len(losses), margins


def test_a_batchs_loss_is_the_mean_over_pairs(lm, batch):
    sums = MetricSums()
    with torch.no_grad():
        losses_of(lm, packed(batch)).record_old(sums)
    expected, margins = plainly(lm, batch)
    assert sums.totals["loss"] == pytest.approx(2.0 * expected, abs=1e-5)
    assert sums.totals["pairs"] == len(batch[1])
    assert sums.mean("preferred", "pairs") == pytest.approx(sum(m > 0 for m in margins) / len(margins))
    assert sums.mean("margin", "pairs") == pytest.approx(sum(margins) / len(margins), abs=1e-4)


@pytest.mark.parametrize("cut", [{}, {"max_tokens": 30}], ids=["one chunk", "many chunks"])
def test_merged_pairs_have_the_gradient_of_single_ones(lm, batch, cut):
    merged, single = packed(batch), packed(batch, merge=False)
    assert len(merged.choice + merged.free) < len(single.choice + single.free)
    loss, slope, sums = moved_gradient(lm, merged, **cut)
    single_loss, single_slope, single_sums = moved_gradient(lm, single)
    assert loss == pytest.approx(single_loss, rel=1e-5)
    assert float(single_slope.abs().max()) > 1e-3
    torch.testing.assert_close(slope, single_slope, atol=2e-6, rtol=1e-4)
    assert sums.totals["preferred"] == single_sums.totals["preferred"]


def test_the_gradient_is_the_slope_of_the_loss(lm, batch):
    """Along the gradient the loss rises by its norm: central differences through the whole model."""
    student = copied(lm)
    losses = losses_of(student, packed(batch))
    losses.record_old(MetricSums())
    norm, rise = norm_and_rise(student, losses)
    assert rise == pytest.approx(norm, rel=0.03)


def test_minibatches_are_on_average_the_whole_batch(lm, batch):
    """Pairs are never torn, so two halves, each weighed double, have the mean gradient of the whole."""
    rows = packed(batch)
    student = copied(lm)
    losses = losses_of(student, rows, minibatches=2, minibatch_rows=1)
    losses.record_old(MetricSums())
    slopes = [gradient(student, losses.losses(step, MetricSums()))[1] for step in (0, 1)]
    losses = losses_of(student, rows)
    losses.record_old(MetricSums())
    _, slope = gradient(student, losses.losses(0, MetricSums()))
    torch.testing.assert_close(sum(slopes) / 2, slope, atol=2e-6, rtol=1e-4)


def test_replies_to_different_prompts_make_no_pair(batch):
    trajectories, _ = batch
    other = next(
        i
        for i, t in enumerate(trajectories)
        if t.turns[0].trace.prompt_ids != trajectories[0].turns[0].trace.prompt_ids
    )
    with pytest.raises(ValueError, match="different prompts do not make a pair"):
        packed((trajectories, [(0, other)]))
