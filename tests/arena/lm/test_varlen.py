"""Attention by lengths is that of padded rows under masks, for play and for learning."""

import random

import pytest
import torch
from support.models.pocket import plain_logprobs

from arena.lm.attention.varlen import Span, by_sequence, has_kernel, lay_out_spans
from arena.lm.chunks import plan_chunks
from arena.lm.logprobs import ScoreOptions
from arena.lm.packing import Pack
from arena.lm.scoring import plan_passes

SYSTEM, OTHER = tuple(range(50, 90)), tuple(range(100, 150))


def rows_of(number, prefixes=((), SYSTEM, OTHER)):
    rng = random.Random(0)
    prompts = [
        (*rng.choice(prefixes), *(rng.randrange(3, 290) for _ in range(rng.randrange(1, 9)))) for _ in range(number)
    ]
    return prompts, [tuple(rng.randrange(3, 290) for _ in range(rng.randrange(1, 12))) for _ in range(number)]


def scored(lm, prompts, replies, by_spans):
    """Return the log-probs of each reply, and the gradient of their sum."""
    lm.packs_by_spans = by_spans
    lm.model.zero_grad(set_to_none=True)
    found = [None] * len(prompts)
    for part in plan_passes(lm, prompts, replies, 200):
        scores = part.scores(lm, ScoreOptions())
        scores.logprobs.sum().backward()
        for item, row in zip(part.items, scores.logprobs.detach(), strict=True):
            found[item] = row[: len(replies[item])]
    return found, {name: parameter.grad.clone() for name, parameter in lm.parameters().items()}


def test_a_suffix_attends_to_its_prefix_and_to_itself():
    """By hand: tokens 0 1 2 are a prefix, 3 4 follow it, and so does 5; a sequence 6 7 stands alone."""
    spans = lay_out_spans([Span(0, 3, 0, 0), Span(3, 2, 0, 3), Span(5, 1, 0, 3), Span(6, 2, 6, 0)], torch.device("cpu"))
    assert spans.keys.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 7]
    assert spans.query_ends.tolist() == [0, 3, 5, 6, 8]
    assert spans.key_ends.tolist() == [0, 3, 8, 12, 14]
    assert (spans.most_queries, spans.most_keys) == (3, 5)
    # Equal keys: a query takes the mean of all values that it sees, here their numbers.
    values = spans.keys.float()[:, None, None].expand(-1, 1, 8)
    seen = by_sequence(torch.ones(8, 2, 8), torch.ones(14, 1, 8), values, spans, 1.0)[:, 0, 0]
    assert seen.tolist() == pytest.approx([0.0, 0.5, 1.0, 6 / 4, 10 / 5, 8 / 4, 6.0, 6.5])


def test_replies_are_scored_as_under_masks(lm):
    prompts, replies = rows_of(30)
    expected, gradient = scored(lm, prompts, replies, by_spans=False)
    found, gradient_found = scored(lm, prompts, replies, by_spans=True)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
    for name, part in gradient.items():
        torch.testing.assert_close(gradient_found[name], part, atol=1e-3, rtol=1e-3, msg=name)


@torch.no_grad()
def test_packs_of_choices_have_the_logits_of_plain_passes(lm, plain):
    prompts, _ = rows_of(12)
    lm.packs_by_spans = True
    pack = Pack(tuple(plan_chunks(prompts, [((),)] * len(prompts), 8192, cost=16)))
    logits = lm.run_pack(pack).logits[0].log_softmax(-1)
    for item, row in zip(pack.items, logits, strict=True):
        assert row[7].item() == pytest.approx(plain_logprobs(plain, prompts[item], (7,))[0], abs=1e-4)


def test_the_kernel_is_for_16_bits_on_a_gpu():
    assert not has_kernel(torch.device("cpu"), torch.bfloat16, 4, 2, 64)
