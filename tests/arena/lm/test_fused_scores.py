"""Scores with a gradient written out are those that PyTorch differentiates."""

import pytest
import torch
from torch.nn import Linear

from arena.lm.fused_scores import fits, fused_token_scores
from arena.lm.logprobs import ScoreOptions, token_scores
from roles.truncation import NO_TRUNCATION, Truncation

TOKENS, HIDDEN, VOCABULARY = 11, 6, 40


def scored(function, options, **more):
    generator = torch.Generator().manual_seed(0)
    head = Linear(HIDDEN, VOCABULARY, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.randn(VOCABULARY, HIDDEN, generator=generator))
    states = torch.randn(TOKENS, HIDDEN, generator=generator).requires_grad_()
    targets = torch.randint(VOCABULARY, (TOKENS,), generator=generator)
    weights = torch.randn(2, TOKENS, generator=generator)
    scores = function(head, states, targets, options, **more)
    loss = weights[0] @ scores.logprobs
    if options.entropy_gradient:
        loss = loss + weights[1] @ scores.entropy
    loss.backward()
    return scores.logprobs.detach(), scores.entropy.detach(), states.grad, head.weight.grad


@pytest.mark.parametrize("most", [3 * VOCABULARY, 1 << 28], ids=["chunks of 3 tokens", "one chunk"])
@pytest.mark.parametrize("entropy_gradient", [True, False])
@pytest.mark.parametrize("truncation", [NO_TRUNCATION, Truncation(top_k=7), Truncation(top_p=0.6)])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_and_gradients_are_those_of_autograd(most, entropy_gradient, truncation, temperature):
    options = ScoreOptions(temperature, entropy_gradient, truncation)
    expected = scored(token_scores, options, vocabulary=VOCABULARY)
    found = scored(fused_token_scores, options, most_logits=most)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_a_frozen_head_gets_no_gradient():
    head = Linear(HIDDEN, VOCABULARY, bias=False).requires_grad_(False)
    states = torch.ones(2, HIDDEN, requires_grad=True)
    fused_token_scores(head, states, torch.tensor([1, 2]), ScoreOptions()).logprobs.sum().backward()
    assert head.weight.grad is None
    # sum_t d log p_t / d states = w_t - sum_j p_j w_j
    expected = head.weight[[1, 2]] - (states @ head.weight.T).softmax(-1) @ head.weight
    torch.testing.assert_close(states.grad, expected.detach())


def test_it_takes_plain_heads():
    assert fits(Linear(2, 3, bias=False))
    assert not fits(Linear(2, 3))
    assert not fits(torch.nn.Sequential(Linear(2, 3, bias=False)))


def test_replies_are_scored_the_same(lm):
    from arena.lm.scoring import plan_passes

    prompts, replies = [(5, 6, 7), (5, 6, 8, 9)], [(10, 11), (12,)]
    (part,) = plan_passes(lm, prompts, replies, 8192)
    with torch.no_grad():
        expected = part.scores(lm, ScoreOptions())
        lm.fuses_scores = True
        torch.testing.assert_close(part.scores(lm, ScoreOptions()), expected)
