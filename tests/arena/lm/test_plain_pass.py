"""Passes without transformers' modules: the same sums, with and without padding, a prefix and gradients."""

import random

import pytest
import torch
from torch.nn.functional import embedding

from arena.lm import plain_pass
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


def _of_a_tree(prefix, rows):
    """Return a chunk of rows that share their beginnings, in no order, of two lengths."""
    rng = random.Random(1)
    suffixes = [tuple(rng.choices(range(5), k=rng.choice((3, 5)))) for _ in range(rows)]
    return Chunk(tuple(range(prefix)), tuple(range(rows)), tuple(suffixes))


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


def _exact(lm, chunk, keep):
    """Return what ``_computed`` does by transformers in double precision."""
    return _computed(LanguageModel(lm.copy().model.double(), lm.tokenizer), chunk, keep, plain=True)


@pytest.mark.parametrize("prefix", [0, 1, 9])
@pytest.mark.parametrize("lengths", [[4, 4, 4], [1, 5, 3, 2], [1, 1], [6]])
@pytest.mark.parametrize("keep", [1, 2, 6])
def test_a_plain_pass_computes_what_transformers_does(lm, prefix, lengths, keep):
    _compare(lm, _chunk(prefix, lengths), min(keep, max(lengths)))


@pytest.mark.parametrize("prefix", [0, 4])
@pytest.mark.parametrize("keep", [1, 3, 5])
def test_what_rows_begin_with_is_computed_once(lm, prefix, keep, monkeypatch):
    kept = []
    monkeypatch.setattr(plain_pass, "embedding", lambda ids, *others: kept.append(len(ids)) or embedding(ids, *others))
    chunk = _of_a_tree(prefix, 80)
    beginnings = {(len(row), row[: end + 1]) for row in chunk.suffixes for end in range(len(row))}
    _compare(lm, chunk, keep)
    # and the padding before the shorter rows, once for each place
    assert kept[-1] == len(beginnings) + 2 < 0.85 * 80 * 5


def _compare(lm, chunk, keep):
    """Compare a plain pass and its gradients with those of transformers in double precision."""
    assert lm.plain is not None
    lengths = [len(row) for row in chunk.suffixes]
    logits, gradients = _computed(lm, chunk, keep, plain=True)
    expected, expected_gradients = _exact(lm, chunk, keep)
    at_tokens = torch.tensor([[keep - n <= length for n in range(keep)] for length in lengths])
    torch.testing.assert_close(logits[at_tokens], expected[at_tokens].float(), rtol=1e-5, atol=1e-5)
    for gradient, one in zip(gradients, expected_gradients, strict=True):
        assert gradient is not None
        assert (gradient - one).norm() < 1e-5 * one.norm() + 3e-6  # some are 0
    with torch.inference_mode():
        assert torch.equal(lm.run(chunk, keep).logits, logits)


@pytest.mark.parametrize("lengths", [[4, 4, 4], [1, 5, 3, 2], [6]])
def test_all_positions_have_the_bits_of_transformers(lm, lengths):
    """Where the last layer reads all positions, each number is computed by the same sum."""
    chunk = _chunk(0, lengths)
    logits, _ = _computed(lm, chunk, max(lengths), plain=True)
    expected, _ = _computed(lm, chunk, max(lengths), plain=False)
    assert torch.equal(logits, expected)


def test_it_is_taken_only_where_it_suits(lm):
    assert LanguageModel(lm.copy().model.double(), lm.tokenizer).plain_pass() is None
    assert build_pocket(["a"], SHAPE._replace(hidden_size=512, layers=1), seed=0).plain is None
    adapted = lm.copy()
    adapted.adapters = object()
    assert adapted.plain_pass() is None
    assert PlainPass.of(lm.model) is not None
    assert lm.plain_pass() is lm.plain
