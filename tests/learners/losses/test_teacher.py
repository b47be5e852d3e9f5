"""Divergences from a teacher: SciPy's values, exact gradients, and the mean of the estimates from sampled tokens."""

import math
import random

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr
from support.learning.slopes import gradient, move, norm_and_rise
from support.learning.updates import PLAIN, STEPS, policy
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import brief, copied

from learners.batching import pack
from learners.losses.batch_loss import BatchLoss
from learners.losses.distillation import Distillation, taught_rows
from learners.losses.divergences import DIVERGENCES, sampled_divergence
from learners.losses.term import UpdateFacts
from learners.metric_sums import MetricSums
from learners.normalisation import Normalisation
from learners.trajectories import Evidence, evidence_from_json, evidence_to_json
from learners.update.learner import update

SCIPY = {
    "reverse": lambda student, teacher: rel_entr(student, teacher).sum(),
    "forward": lambda student, teacher: rel_entr(teacher, student).sum(),
    "jensen_shannon": lambda student, teacher: jensenshannon(student, teacher) ** 2,
}


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(lm, request):
    return self_play(lm, 12, request.param)


def taught(trajectories, seed=0):
    """Return what a teacher says, one of three things to each choice and something else to each free token."""
    rng = random.Random(seed)

    def said(turn):
        if turn.trace.mask:
            share = rng.choice((0.1, 0.25, 0.8))
            return (share, 1.0 - share)
        return tuple(p + rng.gauss(-0.2, 0.5) for p in turn.trace.logprobs)

    return [Evidence(taught=tuple(said(turn) for turn in t.turns)) for t in trajectories]


def batch_of(trajectories, evidence, name="reverse", weight=0.7, **options):
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    normalisation = Normalisation("token_mean")
    packed = pack("main", trajectories, advantages, {"kuhn_poker": 2.0}, normalisation, **options)
    return with_teacher(packed, trajectories, evidence, name, weight)


def with_teacher(packed, trajectories, evidence, name="reverse", weight=0.7):
    facts = UpdateFacts(packed, trajectories, evidence, [], [], {})
    rows = taught_rows(facts, Distillation(weight=weight, divergence=name))
    return packed.batch if rows is None else packed.batch._replace(terms={"distill": rows})


def losses_of(student, batch):
    return BatchLoss(student, None, batch, PLAIN, max_tokens=512)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_divergences_are_scipys_and_the_mean_sample_has_their_gradient(name):
    """The mean is over all replies, by the probabilities of the older policy that drew them."""
    generator = np.random.default_rng(0)
    student, teacher, older = (generator.dirichlet(np.ones(5)) for _ in range(3))
    logits = torch.tensor(np.log(student), requires_grad=True)
    said, old = torch.tensor(np.log(teacher)), torch.tensor(np.log(older))
    exact = DIVERGENCES[name].make(logits.log_softmax(-1)[None], said[None])
    assert float(exact.detach()) == pytest.approx(SCIPY[name](student, teacher), abs=1e-12)
    (slope,) = torch.autograd.grad(exact.sum(), logits)
    sampled = sampled_divergence(DIVERGENCES[name], logits.log_softmax(-1), said, old)
    (mean,) = torch.autograd.grad((torch.tensor(older) * sampled).sum(), logits)
    torch.testing.assert_close(mean, slope, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_choices_loss_and_its_metric_are_worked_out_turn_by_turn(lm, name):
    trajectories = self_play(lm, 12, CHOICE)
    evidence = taught(trajectories)
    batch, sums = batch_of(trajectories, evidence, name), MetricSums()
    found = float(sum(losses_of(lm, batch).losses(0, sums)).detach())
    without = float(sum(losses_of(lm, batch._replace(terms={})).losses(0, MetricSums())).detach())
    turns = [
        (turn, said, t.role)
        for t, e in zip(trajectories, evidence, strict=True)
        for turn, said in zip(t.turns, e.taught, strict=True)
    ]
    by_turn = [SCIPY[name](np.array(probabilities(lm, turn)), np.array(said)) for turn, said, _ in turns]
    assert found - without == pytest.approx(0.7 * 2.0 * sum(by_turn) / len(turns), abs=1e-5)
    for role in ("first", "second"):
        kl = [SCIPY["reverse"](np.array(probabilities(lm, turn)), np.array(s)) for turn, s, r in turns if r == role]
        assert sums.mean(f"teacher_kl/kuhn_poker/{role}", f"taught/kuhn_poker/{role}") == pytest.approx(
            sum(kl) / len(kl), abs=1e-5
        )


@torch.no_grad()
def probabilities(lm, turn):
    trie = lm.trie(turn.trace.mask)
    (chunk,) = lm.plan_choice([turn.trace.prompt_ids], [trie], 8192)
    return lm.choice_logprobs(chunk, [trie], 1.0).replies[0].exp().double().tolist()


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_gradient_of_choices_is_the_slope_of_the_loss(lm, name):
    trajectories, student = self_play(lm, 12, CHOICE), copied(lm)
    losses = losses_of(student, batch_of(trajectories, taught(trajectories), name))
    losses.record_old(MetricSums())
    move(student, 1e-3)
    norm, rise = norm_and_rise(student, losses)
    assert rise == pytest.approx(norm, rel=0.03)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_gradient_of_free_replies_is_that_of_each_sampled_token(lm, name):
    """By a plain pass over each turn: its weight times pi / pi_old times the coefficient, at every token."""
    trajectories, student = self_play(lm, 12, FREE), copied(lm)
    evidence = taught(trajectories)
    batch = batch_of(trajectories, evidence, name)
    results = []
    for each in (batch, batch._replace(terms={})):
        losses = losses_of(lm := copied(student), each)
        losses.record_old(MetricSums())
        move(lm, 0.01)
        results.append(gradient(lm, losses.losses(0, MetricSums()))[1])
    turns = [pair for t, e in zip(trajectories, evidence, strict=True) for pair in zip(t.turns, e.taught, strict=True)]
    tokens = sum(len(turn.trace.reply_ids) for turn, _ in turns)
    moved = copied(student)
    move(moved, 0.01)
    by_hand = []
    for turn, said in turns:
        logprobs, old = plain_logprobs(moved, turn), plain_logprobs(student, turn).detach()
        each = sampled_divergence(DIVERGENCES[name], logprobs, torch.tensor(said), old)
        by_hand.append(0.7 * 2.0 / tokens * each.sum())
    expected = gradient(moved, by_hand)[1]
    torch.testing.assert_close(results[0] - results[1], expected, atol=2e-5, rtol=1e-3)


def plain_logprobs(lm, turn):
    ids = turn.trace.reply_ids
    logits = lm.model(input_ids=torch.tensor([[*turn.trace.prompt_ids, *ids]])).logits[0]
    logprobs = logits[len(turn.trace.prompt_ids) - 1 : -1].log_softmax(-1)
    return logprobs.gather(1, torch.tensor(ids)[:, None])[:, 0]


@pytest.mark.parametrize("name", DIVERGENCES)
def test_merging_changes_nothing(lm, trajectories, name):
    evidence, results = taught(trajectories), []
    for merge in (True, False):
        student, sums = copied(lm), MetricSums()
        losses = losses_of(student, batch_of(trajectories, evidence, name, merge=merge))
        results.append((gradient(student, losses.losses(0, sums))[1], sums))
    (merged, sums), (single, single_sums) = results
    torch.testing.assert_close(merged, single, atol=2e-6, rtol=0)
    for metric in ("teacher_kl/kuhn_poker/first", "taught/kuhn_poker/first"):
        assert sums.totals[metric] == pytest.approx(single_sums.totals[metric], rel=1e-4)


def test_without_a_weight_what_a_teacher_says_changes_no_bit(lm, trajectories):
    gradients = []
    for evidence in (taught(trajectories), [Evidence()] * len(trajectories)):
        student = copied(lm)
        losses = losses_of(student, batch_of(trajectories, evidence, weight=0.0)).losses(0, MetricSums())
        gradients.append(gradient(student, losses)[1])
    assert torch.equal(*gradients)


def test_updates_near_a_policy_to_its_teacher_and_turns_without_one_are_left_out():
    learner = policy()
    trajectories = self_play(learner.lm, 24, CHOICE)
    evidence = [Evidence(taught=tuple((0.9, 0.1) if t.role == "first" else () for _ in t.turns)) for t in trajectories]
    nothing = [[0.0] * len(t.turns) for t in trajectories]
    batch = with_teacher(pack("main", trajectories, nothing, {}), trajectories, evidence)
    steps = STEPS._replace(learning_rate=3e-3, max_gap=9.0)  # the same batch again and again
    reported = [update(learner, batch, PLAIN, steps) for _ in range(6)]
    assert "teacher_kl/kuhn_poker/second" not in reported[0]
    assert reported[-1]["teacher_kl/kuhn_poker/first"] < 0.3 * reported[0]["teacher_kl/kuhn_poker/first"]


def test_evidence_is_read_back_as_it_was():
    for evidence in (Evidence(), Evidence(taught=((0.25, 0.75), (), (-1.5, -0.25, -2.0)), values=(1.0, 2.0, 3.0))):
        assert evidence_from_json(evidence_to_json(evidence)) == evidence
    assert "taught" not in evidence_to_json(Evidence())
