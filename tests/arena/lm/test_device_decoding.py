"""Decoding in tensors that stay where they are draws what decoding state by state draws, and waits for no token."""

import math
import random

import pytest
import torch
from support.models.pocket import brief, pocket
from torch._subclasses.fake_tensor import FakeTensorMode

from arena.flops import COUNTED
from arena.lm.decoding import device_decoding, static_batch
from arena.lm.decoding.decode import generate
from arena.lm.decoding.graphs import unchanged
from arena.lm.decoding.static_batch import Sampling, Sizes, StaticBatch, rounded_rows, rows_within
from arena.lm.lora import Adapters, AdapterShape
from roles.truncation import NO_TRUNCATION, Truncation

SYSTEM = tuple(range(50, 290))


def prompts_of(number, prefix=()):
    rng = random.Random(0)
    return [(*prefix, i + 3, *(rng.randrange(3, 290) for _ in range(rng.randrange(9)))) for i in range(number)]


def sampled(lm, prompts, on_device, *, temperature=1.0, max_tokens=40, truncation=NO_TRUNCATION, most=8192):
    rngs = [random.Random(i) for i in range(len(prompts))]
    lm.decodes_on_device = on_device
    replies = generate(
        lm,
        prompts,
        rngs,
        temperature=temperature,
        max_tokens=max_tokens,
        max_batch_tokens=most,
        truncation=truncation,
    )
    return replies, [rng.random() for rng in rngs]


def assert_same(lm, prompts, **options):
    before = COUNTED.total
    expected, after = sampled(lm, prompts, on_device=False, **options)
    merged, before = COUNTED.total - before, COUNTED.total
    found, after_found = sampled(lm, prompts, on_device=True, **options)
    assert [reply.reply_ids for reply in found] == [reply.reply_ids for reply in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
    assert after_found == after, "generators are where they would be"
    return expected, merged, COUNTED.total - before


@pytest.fixture(scope="module")
def ending():
    return brief(pocket(seed=1, sharpness=2.0))


@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "a shared prefix"])
@pytest.mark.parametrize("most", [12, 8192], ids=["many chunks", "one chunk"])
def test_replies_are_those_of_decoding_by_states(ending, prefix, most):
    prompts = prompts_of(40, prefix) * 2
    replies, _, _ = assert_same(ending, prompts, most=most)
    lengths = {len(reply.reply_ids) for reply in replies}
    assert min(lengths) < 4, "some rows end before ends are first looked for"
    assert max(lengths) > 17, "and some after"


@pytest.mark.parametrize("truncation", [Truncation(top_k=5), Truncation(top_p=0.7), Truncation(min_p=0.1)])
def test_truncation_is_the_same(ending, truncation):
    assert_same(ending, prompts_of(12), truncation=truncation, temperature=0.8, max_tokens=6)


def test_what_is_computed_is_counted_as_before(ending):
    """Without equal prompts and replies nothing is shared, so both ways read each token once."""
    prompts = [(i + 3, 7, 2 * i + 40) for i in range(8)]
    _, merged, static = assert_same(ending, prompts, max_tokens=12, temperature=3.0)
    assert static == pytest.approx(merged, rel=0.01)


@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "a shared prefix"])
def test_rows_that_do_not_fit_together_are_decoded_one_batch_after_another(ending, prefix, monkeypatch):
    monkeypatch.setattr(device_decoding, "BYTES_ON_CPU", 1)
    lm = brief(pocket(seed=1, sharpness=2.0))
    assert_same(lm, prompts_of(20, prefix), max_tokens=20)
    assert device_decoding.batches_of(lm).most_rows(256) == 8


def test_batches_are_used_again(ending):
    sampled(ending, prompts_of(20), on_device=True)
    kept = dict(device_decoding.batches_of(ending)._kept)
    sampled(ending, prompts_of(18), on_device=True)
    assert device_decoding.batches_of(ending)._kept == kept


def test_adapters_on_one_base_share_batches():
    base = brief(pocket(seed=1, sharpness=2.0))
    adapters = Adapters(base, "base")
    views = [adapters.add(AdapterShape(rank=2), seed) for seed in (1, 2)]
    with torch.no_grad():
        for view in views:
            for parameter in view.parameters().values():
                parameter.normal_(std=0.3)
    texts = []
    for view in (*views, base):
        replies, _, _ = assert_same(view, prompts_of(8), max_tokens=8)
        texts.append(replies)
    assert texts[0] != texts[1] != texts[2]
    assert views[0].batches is views[1].batches is None is not base.batches


@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "shared prefixes"])
def test_adapters_in_one_batch_reply_as_each_by_itself(prefix):
    base = brief(pocket(seed=1, sharpness=2.0))
    adapters = Adapters(base, "base")
    views = [base, adapters.add(AdapterShape(rank=2), 1), adapters.add(AdapterShape(rank=3, targets=("q_proj",)), 2)]
    with torch.no_grad():
        for view in views[1:]:
            for parameter in view.parameters().values():
                parameter.normal_(std=0.3)
    prompts = prompts_of(6, prefix)
    alone = [reply for view in views for reply in sampled(view, prompts, on_device=False)[0]]
    for view in views:
        view.decodes_on_device = True
    rngs = [random.Random(i) for _ in views for i in range(len(prompts))]
    players = [view for view in views for _ in prompts]
    mixed = generate(players, prompts * 3, rngs, temperature=1.0, max_tokens=40, max_batch_tokens=8192)
    assert [reply.reply_ids for reply in mixed] == [reply.reply_ids for reply in alone]
    for a, b in zip(mixed, alone, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
    assert alone[:6] != alone[6:12] != alone[12:]
    assert sampled(views[1], prompts, on_device=False)[0] == alone[6:12], "afterwards each is itself again"


def begun(lm, sizes, prefix=()):
    """Return a batch with two sequences behind a prefix."""
    batch = StaticBatch(lm, sizes, [(2, 8)] * 2, torch.float32)
    chunk = lm.plan([(*prefix, 5, 6, 7), (*prefix, 8, 9)], [((),)] * 2, 8192)[0]
    rows = [device_decoding._Row(i, lm, chunk, i) for i in range(2)]
    device_decoding._read(batch, rows, chunk.prefix, 3)
    device_decoding._set_points(batch, [random.Random(i) for i in range(2)], 8)
    return batch


@torch.inference_mode()
@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "a shared prefix"])
def test_steps_before_a_capture_leave_no_trace(lm, prefix):
    def tokens(warm_ups):
        batch = begun(lm, Sizes.holding(2, len(prefix), 16), prefix)
        for _ in range(5):
            with unchanged(batch.changing):
                for _ in range(warm_ups):
                    batch.advance(lm, sampling, 128)
            batch.advance(lm, sampling, 128)
        return batch.written(5)

    sampling = Sampling(1.0, NO_TRUNCATION, lm.end_token)
    assert tokens(0) == tokens(3)


@pytest.mark.parametrize("truncation", [NO_TRUNCATION, Truncation(5, 0.9, 0.1)])
@pytest.mark.parametrize("prefix", [0, 128])
def test_a_step_waits_for_nothing(lm, prefix, truncation):
    """Tensors without data refuse whatever would need their numbers on the processor."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode():
        batch = StaticBatch(lm, Sizes(8, prefix, 128), [(2, 8)] * 2, torch.float32)
        batch.advance(lm, Sampling(1.0, truncation, lm.end_token), 128)
        with pytest.raises(RuntimeError):
            bool(batch.done.all())


def test_sizes_are_few():
    assert {rounded_rows(n) for n in range(1, 1025)} == {8, 16, 32, 64, 128, 256, *range(384, 1025, 128)}
    assert all(rounded_rows(n) >= n and rounded_rows(rounded_rows(n)) == rounded_rows(n) for n in range(1, 1100))
    assert all(8 <= rows_within(n) == rounded_rows(rows_within(n)) <= max(n, 8) for n in range(1100))
    assert Sizes.holding(3, 0, 130) == (8, 0, 256)
    assert math.prod(static_batch.Sizes.holding(300, 100, 200)) == 384 * 128 * 256
