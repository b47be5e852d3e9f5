"""The imitation loss is the cross-entropy of plain PyTorch, and stands beside the policy gradient by its weight."""

import math
import random

import pytest
import torch
from support.learning.slopes import gradient
from support.learning.updates import PLAIN, STEPS, policy
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import allowed_tokens, brief, copied

from learners.batching import to_batch
from learners.losses.batch_loss import BatchLoss
from learners.losses.imitation import draw_imitation
from learners.losses.term import ImitatedReply
from learners.metric_sums import MetricSums
from learners.normalisation import Normalisation
from learners.update.learner import update

TEMPERATURE = 1.3


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(lm, request):
    return self_play(lm, 12, request.param)


@pytest.fixture(scope="module")
def replies(trajectories):
    """Return the replies of those matches as another player's, each given from one to five times."""
    rng = random.Random(0)
    traces = {turn.trace.prompt_ids: turn for t in trajectories for turn in t.turns}
    return [
        ImitatedReply(
            "kuhn_poker",
            turn.trace.prompt_ids,
            turn.trace.mask or (),
            turn.reply,
            () if turn.trace.mask else turn.trace.reply_ids,
            TEMPERATURE,
            rng.randint(1, 5),
        )
        for turn in traces.values()
    ]


def plain_cross_entropy(lm, reply):
    """Return a reply's cross-entropy, summed over its tokens, by one forward pass and PyTorch's own function."""
    options = [lm.encode_reply(text) for text in reply.legal] or [reply.tokens]
    which = reply.legal.index(reply.reply) if reply.legal else 0
    tokens = options[which]
    logits = lm.model(input_ids=torch.tensor([[*reply.prompt, *tokens]])).logits[0, len(reply.prompt) - 1 : -1]
    if reply.legal:
        shut = torch.full_like(logits, -math.inf)
        for row, allowed in zip(shut, allowed_tokens(options, which), strict=True):
            row[allowed] = 0.0
        logits = logits + shut
    return torch.nn.functional.cross_entropy(logits / TEMPERATURE, torch.tensor(tokens), reduction="sum")


def losses_of(student, batch):
    return BatchLoss(student, None, batch, PLAIN, max_tokens=512)


def batch_of(trajectories, replies, weight):
    """Return a batch as ``learning.iteration`` makes it: the loss weight of play is what imitation leaves."""
    advantages = [[math.sin(7 * i + k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    batch = to_batch("main", trajectories, advantages, {"kuhn_poker": 1.0 - weight}, Normalisation("token_mean"))
    return batch._replace(terms={"imitation": draw_imitation(replies, 40, weight, seed=5)}) if weight else batch


def drawn(replies):
    return random.Random(5).choices(replies, [reply.times for reply in replies], k=40)


def test_weight_1_is_the_cross_entropy_of_plain_pytorch(lm, trajectories, replies):
    expected_lm, sums = copied(lm), MetricSums()
    expected = sum(plain_cross_entropy(expected_lm, reply) for reply in drawn(replies))
    expected = expected / sum(max(len(reply.tokens), 1) for reply in drawn(replies))
    student = copied(lm)
    loss, found = gradient(student, losses_of(student, batch_of(trajectories, replies, 1.0)).losses(0, sums))
    _, plain = gradient(expected_lm, [expected])
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    assert sums.mean("imitation", "imitated_tokens") == pytest.approx(loss, rel=1e-5)
    assert float(plain.abs().max()) > 1e-3
    torch.testing.assert_close(found, plain, atol=2e-6 * float(plain.abs().max().clamp(min=1.0)), rtol=0)


def test_half_the_weight_is_half_of_each_gradient(lm, trajectories, replies):
    gradients = {}
    for weight in (0.0, 0.5, 1.0):
        student = copied(lm)
        losses = losses_of(student, batch_of(trajectories, replies, weight))
        losses.record_old(MetricSums())
        _, gradients[weight] = gradient(student, losses.losses(0, MetricSums()))
    half = (gradients[0.0] + gradients[1.0]) / 2
    torch.testing.assert_close(gradients[0.5], half, atol=1e-5 * float(half.abs().max()), rtol=0)


def test_minibatches_add_up_to_the_whole(lm, trajectories, replies):
    batch, totals = batch_of(trajectories, replies, 1.0), []
    for minibatches in (1, 3):
        student = copied(lm)
        losses = BatchLoss(student, None, batch, PLAIN, max_tokens=512, minibatches=minibatches, minibatch_rows=2)
        steps = [gradient(student, losses.losses(step, MetricSums()))[1] for step in range(minibatches)]
        totals.append(sum(steps) / minibatches)
    torch.testing.assert_close(totals[1], totals[0], atol=1e-5 * float(totals[0].abs().max()), rtol=0)


def test_an_update_reports_the_loss_and_lowers_it(trajectories, replies):
    student = policy()
    batch = batch_of(trajectories, replies, 1.0)
    steps = STEPS._replace(learning_rate=1e-3, inner_steps=4, max_gap=math.inf)
    reported = [update(student, batch, PLAIN, steps)["imitation/loss"] for _ in range(3)]
    assert reported[0] > reported[1] > reported[2] > 0.0
    assert "imitation/loss" not in update(student, batch_of(trajectories, replies, 0.0), PLAIN, steps)


def test_the_same_seed_draws_the_same_replies_and_equal_prompts_are_one_row(replies):
    rows = draw_imitation(replies, 500, 0.25, seed=1)
    assert rows == draw_imitation(replies, 500, 0.25, seed=1) != draw_imitation(replies, 500, 0.25, seed=2)
    assert sum(sum(row.counts) for row in rows.choice) + sum(row.visits for row in rows.free) == 500
    weight = sum(sum(row.weights) for row in rows.choice) + sum(row.weight * len(row.reply) for row in rows.free)
    assert weight == pytest.approx(0.25)
    prompts = [row.prompt for row in rows.choice]
    assert len(prompts) == len(set(prompts))


def test_several_processes_share_the_rows(lm, trajectories, replies):
    """The rows of two processes are all rows, and their gradients add up."""

    class Half:
        def __init__(self, rank):
            self.rank = rank

        def local_units(self, units, rows):
            return units[self.rank :: 2]

    batch = batch_of(trajectories, replies, 0.5)
    parts = []
    for rank in (0, 1):
        student = copied(lm)
        losses = BatchLoss(student, None, batch, PLAIN, max_tokens=512, process_group=Half(rank))
        parts.append(gradient(student, losses.losses(0, MetricSums()))[1])
    student = copied(lm)
    _, whole = gradient(student, losses_of(student, batch).losses(0, MetricSums()))
    torch.testing.assert_close(sum(parts), whole, atol=1e-5 * float(whole.abs().max()), rtol=0)
