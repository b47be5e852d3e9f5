"""Passes on stacked weights have the log-probs of ``transformers``' eager model, whatever is padded, shared or new."""

import random

import pytest
import torch
from support.models.pocket import copied, plain_logprobs, plainly, pocket

from arena.lm.decoding import kv_cache
from arena.lm.decoding.decode import _inverted, generate
from arena.lm.lora import Adapters, AdapterShape

SYSTEM = tuple(range(50, 290))
SHAPES = {
    "two heads a group": {"heads": 4, "kv_heads": 2},
    "one": {"heads": 2, "kv_heads": 2, "layers": 1},
    "all heads in one group, three layers": {"heads": 4, "kv_heads": 1, "layers": 3, "intermediate_size": 40},
}
LENGTHS = {"of one length": [5] * 6, "padded": [1, 9, 4, 2, 9, 3], "of one token": [1] * 6}


def shaken(lm, seed=0):
    """Change all weights a little: those of norms begin as 1, and would hide where they are used."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in lm.parameters().values():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator) * weight.std().nan_to_num(1.0).clamp(0.2))
    return lm


def decoded(lm, prompts, **options):
    rngs = [random.Random(seed) for seed in range(len(prompts))]
    return generate(lm, prompts, rngs, **{"temperature": 1.0, "max_tokens": 5, "max_batch_tokens": 8192, **options})


def worst_gap(lm, folder, prompts, replies):
    model = plainly(lm, folder)
    expected = [plain_logprobs(model, prompt, reply.reply_ids) for prompt, reply in zip(prompts, replies, strict=True)]
    gaps = [
        abs(a - b)
        for reply, row in zip(replies, expected, strict=True)
        for a, b in zip(reply.logprobs, row, strict=True)
    ]
    return float(torch.tensor(gaps).max())  # Python's own would pass over one that is not finite


def prompts_of(lengths, prefix):
    rng = random.Random(1)
    return [(*prefix, *rng.choices(range(3, 290), k=length)) for length in lengths]


@pytest.fixture
def passes(monkeypatch):
    """Return how often weights were stacked."""
    made = []
    real = kv_cache.StackedPass
    monkeypatch.setattr(kv_cache, "StackedPass", lambda model: made.append(model) or real(model))
    return made


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "a shared prefix"])
def test_log_probs_are_those_of_the_eager_model(shape, lengths, prefix, passes, tmp_path):
    lm = shaken(pocket(sharpness=1.0, **SHAPES[shape]))
    prompts = prompts_of(LENGTHS[lengths], prefix)
    replies = decoded(lm, prompts)
    assert passes
    assert worst_gap(lm, tmp_path, prompts, replies) < 2e-5
    assert len({reply.reply_ids for reply in replies}) > 1


def test_chunks_of_several_widths_are_decoded_together(passes, tmp_path):
    lm = shaken(pocket(sharpness=1.0))
    prompts = prompts_of([1, 9, 4, 2, 9, 3], ())
    replies = decoded(lm, prompts, max_batch_tokens=12)
    assert len(passes) == 1
    assert worst_gap(lm, tmp_path, prompts, replies) < 2e-5


def test_states_that_split_keep_their_own_keys(passes, tmp_path):
    lm = shaken(pocket(sharpness=1.0))
    prompts = prompts_of([5, 2], ()) * 30
    replies = decoded(lm, prompts, max_tokens=4)
    assert passes
    assert worst_gap(lm, tmp_path, prompts, replies) < 2e-5


def test_each_call_has_the_present_weights(tmp_path):
    lm = shaken(pocket(sharpness=1.0))
    prompts = prompts_of([5, 2, 7], ())
    before = decoded(lm, prompts)
    for number, change in enumerate((lambda w: w.add_(0.05), lambda w: w.data.mul_(1.1))):
        with torch.no_grad():
            for weight in lm.parameters().values():
                change(weight)
        after = decoded(lm, prompts)
        assert after != before
        assert worst_gap(lm, tmp_path / str(number), prompts, after) < 2e-5
        before = after


def test_other_models_are_decoded_by_their_own_passes(passes, tmp_path):
    lm = pocket(sharpness=1.0)
    prompts = prompts_of([5, 2, 7], ())
    adapter = Adapters(copied(lm), str(tmp_path)).add(AdapterShape(rank=2), seed=0)
    alike = [reply.reply_ids for reply in decoded(adapter, prompts)]
    doubled = copied(lm)
    doubled.model.double()
    decoded(doubled, prompts)
    assert not passes
    assert [reply.reply_ids for reply in decoded(lm, prompts)] == alike, "a new adapter does nothing"
    assert len(passes) == 1


@pytest.mark.parametrize("vocabulary", [1, 3, 63, 64, 65, 2048])
def test_a_number_draws_the_token_that_it_draws_from_all_probabilities_in_order(vocabulary):
    """Inversion, also where a third of the tokens cannot be drawn, and at both ends of [0, 1)."""
    generator = torch.Generator().manual_seed(0)
    logits = 4.0 * torch.randn(20, vocabulary, generator=generator)
    if vocabulary > 3:
        logits[:, ::3] = logits[:, -1:] = -1e9
    logprobs = logits.log_softmax(-1)
    parents = torch.randint(20, (1000,), generator=generator)
    numbers = torch.rand(1000, generator=generator, dtype=torch.float64)
    numbers[:20], numbers[20:40] = 0.0, 1 - 2**-53
    drawn = _inverted(logprobs, parents, numbers)
    cumulated = logprobs.exp().cumsum(-1, dtype=torch.float64)[parents]
    points = (numbers * cumulated[:, -1])[:, None]
    expected = torch.searchsorted(cumulated, points, right=True)[:, 0]
    inner = (numbers > 0) & (numbers < 1 - 2**-53)
    assert torch.equal(drawn[inner], expected[inner])
    assert torch.equal(drawn[numbers == 0], expected[numbers == 0])
    assert (logprobs[parents, drawn] > -1e8).all(), "also of the greatest number"
