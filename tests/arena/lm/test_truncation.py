"""Truncated sampling: the distribution that is known by hand, in the sampler, in the scores and in between."""

import math
import random
from collections import Counter

import pytest
import torch
from support.models.pocket import pocket
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from arena.lm.decoding.decode import generate
from arena.lm.logprobs import FIRST_SORTED, ScoreOptions, token_scores, truncate
from arena.lm.scoring import plan_passes
from roles.truncation import NO_TRUNCATION, Truncation

PROBABILITIES = (0.1, 0.4, 0.05, 0.25, 0.2)  # tokens 1, 3, 4, 0, 2 from the likeliest down


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        (Truncation(top_k=2), {1: 40 / 65, 3: 25 / 65}),
        (Truncation(top_k=9), dict(enumerate(PROBABILITIES))),
        (Truncation(top_p=0.6), {1: 40 / 65, 3: 25 / 65}),  # 0.4 is less than 0.6, 0.65 is not
        (Truncation(top_p=0.7), {1: 40 / 85, 3: 25 / 85, 4: 20 / 85}),
        (Truncation(top_p=1e-9), {1: 1.0}),
        (Truncation(min_p=0.3), {1: 40 / 85, 3: 25 / 85, 4: 20 / 85}),  # of 0.4 that is 0.12
        (Truncation(min_p=1.0), {1: 1.0}),
        (Truncation(top_k=3, top_p=0.75), {1: 40 / 65, 3: 25 / 65}),  # of three: 0.47, 0.76
        (Truncation(min_p=0.3, top_p=0.75), {1: 40 / 65, 3: 25 / 65}),
        (Truncation(top_k=2, min_p=0.9), {1: 1.0}),
    ],
)
def test_what_is_left_sums_to_one_again(truncation, expected):
    logits = torch.tensor([PROBABILITIES]).log() + 3.0
    probabilities = truncate(logits, truncation).softmax(-1)[0].tolist()
    assert {i: p for i, p in enumerate(probabilities) if p} == pytest.approx(expected)


@pytest.mark.parametrize("width", [40, 3 * FIRST_SORTED])
def test_each_rule_is_that_of_transformers(width):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(30, width, generator=generator) * torch.linspace(0.01, 5, 30)[:, None]
    for truncation, warper in (
        (Truncation(top_k=7), TopKLogitsWarper(7)),
        (Truncation(top_p=0.8), TopPLogitsWarper(0.8)),
        (Truncation(top_p=0.99), TopPLogitsWarper(0.99)),
        (Truncation(min_p=0.1), MinPLogitsWarper(0.1)),
    ):
        expected = warper(None, logits).softmax(-1)
        torch.testing.assert_close(truncate(logits, truncation).softmax(-1), expected)


def test_scores_are_those_of_the_distribution_that_was_sampled():
    logits = torch.tensor([PROBABILITIES, PROBABILITIES]).log()
    options = ScoreOptions(truncation=Truncation(top_p=0.6))
    logprobs, entropy = token_scores(lambda states: states, logits, torch.tensor([1, 3]), options, 5)
    assert logprobs.tolist() == pytest.approx([math.log(40 / 65), math.log(25 / 65)])
    two = -sum(p * math.log(p) for p in (40 / 65, 25 / 65))
    assert entropy.tolist() == pytest.approx([two, two])


def test_a_token_that_was_sampled_is_kept_where_other_weights_would_cut_it_off():
    logits = torch.tensor([PROBABILITIES]).log().requires_grad_()
    options = ScoreOptions(truncation=Truncation(top_k=1))
    logprobs, entropy = token_scores(lambda states: states, logits, torch.tensor([2]), options, 5)
    assert logprobs.tolist() == pytest.approx([math.log(5 / 45)])
    (logprobs.sum() + entropy.sum()).backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[0, [0, 3, 4]].tolist() == [0.0, 0.0, 0.0], "what is cut off learns nothing"


@pytest.mark.parametrize("truncation", [Truncation(top_p=0.8), Truncation(5, 0.9, 0.02)])
def test_the_learner_scores_replies_as_the_sampler_drew_them(truncation):
    """At most 1e-4 nats a reply; the log-probs of the whole distribution are far from it."""
    lm = pocket()
    prompts = [(i + 3, *range(40, 40 + i % 5)) for i in range(60)]
    rngs = [random.Random(i) for i in range(60)]
    settings = {"temperature": 0.8, "max_tokens": 12, "max_batch_tokens": 8192}
    replies = generate(lm, prompts, rngs, **settings, truncation=truncation)

    @torch.no_grad()
    def gaps(options):
        worst = 0.0
        for one in plan_passes(lm, prompts, [reply.reply_ids for reply in replies], 8192):
            totals = one.scores(lm, options).logprobs.sum(1).tolist()
            for item, total in zip(one.items, totals, strict=True):
                worst = max(worst, abs(total - sum(replies[item].logprobs)))
        return worst

    assert gaps(ScoreOptions(0.8, truncation=truncation)) < 1e-4
    assert gaps(ScoreOptions(0.8)) > 0.1


def test_only_what_is_kept_is_sampled():
    lm = pocket()
    rngs = [random.Random(i) for i in range(400)]
    settings = {"temperature": 3.0, "max_tokens": 1, "max_batch_tokens": 8192}
    replies = generate(lm, [(5, 6, 7)] * 400, rngs, **settings, truncation=Truncation(top_k=3))
    logits = lm.model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1]
    assert {reply.reply_ids[0] for reply in replies} == set(logits.topk(3).indices.tolist())
    counts = Counter(reply.reply_ids[0] for reply in replies)
    for token, logprob in {reply.reply_ids[0]: reply.logprobs[0] for reply in replies}.items():
        share = math.exp(logprob)
        assert counts[token] / 400 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 400))


def test_without_truncation_nothing_is_computed():
    logits = torch.tensor([PROBABILITIES])
    assert truncate(logits, NO_TRUNCATION) is logits
