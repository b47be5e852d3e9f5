"""Passes without transformers' modules: the same bits, with and without padding, a prefix and gradients."""

import random

import pytest
import torch

from arena.lm.chunks import Chunk
from arena.lm.language_model import LanguageModel
from arena.lm.plain_pass import PlainPass
from arena.lm.pocket import PocketShape, build_pocket

SHAPE = PocketShape(hidden_size=64, layers=2, heads=4, kv_heads=2, intermediate_size=96, vocabulary=300)


@pytest.fixture(scope="module")
def lm():
    lm = build_pocket([" ".join(map(str, range(90)))], SHAPE, seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # norms begin with weights of 1
        for weight in lm.parameters().values():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return lm


def _chunk(prefix, lengths):
    rng = random.Random(0)
    return Chunk(
        tuple(rng.choices(range(200), k=prefix)),
        tuple(range(len(lengths))),
        tuple([tuple(rng.choices(range(200), k=length)) for length in lengths]),
    )


def _computed(lm, chunk, keep, *, plain):
    """Return the logits, and the gradients of a sum of log-probs."""
    lm.plain, kept = (lm.plain if plain else None), lm.plain
    try:
        lm.model.zero_grad(set_to_none=True)
        logits = lm.run(chunk, keep).logits
        logits.log_softmax(-1)[..., 7].sum().backward()
        return logits.detach(), [weight.grad for weight in lm.parameters().values()]
    finally:
        lm.plain = kept


@pytest.mark.parametrize("prefix", [0, 1, 9])
@pytest.mark.parametrize("lengths", [[4, 4, 4], [1, 5, 3, 2], [1, 1], [6]])
@pytest.mark.parametrize("keep", [1, 2])
def test_a_plain_pass_has_the_bits_of_transformers(lm, prefix, lengths, keep):
    assert lm.plain is not None
    chunk = _chunk(prefix, lengths)
    keep = min(keep, max(lengths))
    logits, gradients = _computed(lm, chunk, keep, plain=True)
    expected, expected_gradients = _computed(lm, chunk, keep, plain=False)
    assert torch.equal(logits, expected)
    for gradient, one in zip(gradients, expected_gradients, strict=True):
        assert gradient is not None
        assert torch.equal(gradient, one)
    with torch.inference_mode():
        assert torch.equal(lm.run(chunk, keep).logits, expected)


def test_it_is_taken_only_where_it_suits(lm):
    assert LanguageModel(lm.copy().model.double(), lm.tokenizer).plain_pass() is None
    assert build_pocket(["a"], SHAPE._replace(hidden_size=512, layers=1), seed=0).plain is None
    adapted = lm.copy()
    adapted.adapters = object()
    assert adapted.plain_pass() is None
    assert PlainPass.of(lm.model) is not None
    assert lm.plain_pass() is lm.plain
