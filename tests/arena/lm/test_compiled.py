"""A model with compiled norms and gates computes what it did, and compiles them once."""

import copy

import pytest
import torch
from support.models.pocket import other_family, pocket
from torch._dynamo.testing import CompileCounter
from transformers import GPT2Config

from arena.lm.compiled import compile_between_products
from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import plan_passes
from games.common.errors import UsageError


def passes_of(lm, number):
    prompts = [(5, 6, 7 + i) for i in range(number)]
    return plan_passes(lm, prompts, [(10 + i, 11, 12) for i in range(number)], 8192)


def test_what_it_computes_stays_and_nothing_is_compiled_for_another_length():
    plain = pocket(sharpness=2.0)
    compiled = copy.deepcopy(plain)
    counter = CompileCounter()
    torch._dynamo.reset()
    compile_between_products(compiled.model, counter)
    for number in (4, 9, 2, 17):
        (part,) = passes_of(plain, number)
        scores = [part.scores(lm, ScoreOptions()).logprobs for lm in (plain, compiled)]
        torch.testing.assert_close(*scores, atol=1e-5, rtol=0)
        for lm, found in zip((plain, compiled), scores, strict=True):
            lm.model.zero_grad(set_to_none=True)
            found.sum().backward()
        for (name, a), b in zip(plain.parameters().items(), compiled.parameters().values(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, atol=1e-4, rtol=1e-3, msg=name)
        if number == 4:
            first = counter.frame_count
    assert 2 <= first <= 3, "a gate, and norms of hidden states and of heads"
    assert counter.frame_count == first
    torch._dynamo.reset()


def test_a_model_without_them_is_refused():
    lm = other_family(GPT2Config(vocab_size=300, n_embd=32, n_layer=1, n_head=4, n_positions=64))
    with pytest.raises(
        UsageError, match=r"model.compile = true .* GPT2LMHeadModel has none. Set model.compile = false"
    ):
        compile_between_products(lm.model)
