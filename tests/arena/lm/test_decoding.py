"""Free replies: drawn from the model's own distribution, with its own log-probs, in any batch."""

import math
import random
from collections import Counter

import pytest
import torch
from support.models.pocket import brief, other_family, plain_logprobs, plainly, pocket
from transformers import Gemma2Config, GPT2Config, MambaConfig

from arena.lm.decoding import kv_cache
from arena.lm.decoding.decode import generate

SYSTEM = tuple(range(50, 290))


def prompts_of(number, seed=0, prefix=()):
    """Return different prompts of different lengths."""
    rng = random.Random(seed)
    return [(*prefix, i + 3, *(rng.randrange(3, 290) for _ in range(rng.randrange(9)))) for i in range(number)]


def sampled(lm, prompts, seeds, *, temperature=1.0, max_tokens=6, max_batch_tokens=8192):
    rngs = [random.Random(seed) for seed in seeds]
    return generate(
        lm, prompts, rngs, temperature=temperature, max_tokens=max_tokens, max_batch_tokens=max_batch_tokens
    )


def worst_gap(lm, plain, prompts, replies):
    worst = 0.0
    for prompt, reply in zip(prompts, replies, strict=True):
        expected = plain_logprobs(plain, prompt, reply.reply_ids)
        worst = max(worst, *(abs(a - b) for a, b in zip(reply.logprobs, expected, strict=True)))
    return worst


@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "a shared prefix"])
@pytest.mark.parametrize("max_batch_tokens", [1, 8192], ids=["one prompt a chunk", "one chunk"])
def test_recorded_log_probs_are_those_of_the_reply(lm, plain, prefix, max_batch_tokens):
    prompts = prompts_of(8, prefix=prefix) * 2
    replies = sampled(lm, prompts, range(16), max_batch_tokens=max_batch_tokens)
    assert worst_gap(lm, plain, prompts, replies) < 1e-4
    assert len({reply.reply_ids for reply in replies}) > 8


@pytest.mark.parametrize("prefix", [(), SYSTEM], ids=["no prefix", "a shared prefix"])
def test_prompts_of_one_length_need_no_mask(lm, plain, prefix):
    prompts = [(*prefix, i + 3, 2 * i + 40, 7) for i in range(8)]
    replies = sampled(lm, prompts, range(8))
    assert max(len(reply.reply_ids) for reply in replies) == 6
    assert worst_gap(lm, plain, prompts, replies) < 1e-4


def test_several_chunks_are_decoded_together(lm, monkeypatch):
    batch_sizes = []
    real = kv_cache._read_in_place
    monkeypatch.setattr(
        kv_cache,
        "_read_in_place",
        lambda lm, batch, max_new_tokens: batch_sizes.append(len(batch)) or real(lm, batch, max_new_tokens),
    )

    def ids(max_batch_tokens):
        batch_sizes.clear()
        return [reply.reply_ids for reply in sampled(lm, prompts_of(12), range(12), max_batch_tokens=max_batch_tokens)]

    expected = ids(8192)
    assert batch_sizes == [1]
    assert ids(20) == expected
    assert len(batch_sizes) == 1
    assert batch_sizes[0] > 3, "chunks of 20 tokens, one batch"
    monkeypatch.setattr(kv_cache, "MAX_CACHED_TOKENS", 60)
    assert ids(20) == expected
    assert len(batch_sizes) > 1, "a bound on cached tokens makes several batches"


ARCHITECTURES = {
    "gpt2": GPT2Config(vocab_size=300, n_embd=32, n_layer=1, n_head=4, n_positions=512),
    "gemma2, sliding window": Gemma2Config(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=16,
    ),
    "mamba, no cache to cut": MambaConfig(vocab_size=300, hidden_size=16, state_size=4, num_hidden_layers=1),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_architectures_decode_the_same_way(name, tmp_path):
    lm = other_family(ARCHITECTURES[name])
    model = plainly(lm, tmp_path)
    prompts = prompts_of(3, prefix=SYSTEM[:30]) * 2
    replies = sampled(lm, prompts, range(6), max_tokens=4)
    assert worst_gap(lm, model, prompts, replies) < 1e-4


@pytest.fixture(scope="module")
def ending():
    return brief(pocket(seed=1, sharpness=2.0))


def test_replies_end_with_the_end_token_or_at_the_limit(ending):
    replies = sampled(ending, [(5, 6)] * 300, range(300), max_tokens=3)
    for reply in replies:
        assert ending.end_token not in reply.reply_ids[:-1]
        assert len(reply.reply_ids) == len(reply.logprobs)
        assert len(reply.reply_ids) == 3 or reply.reply_ids[-1] == ending.end_token


def test_replies_are_as_frequent_as_they_are_probable(lm, plain):
    number, prompt = 4000, (7, 8, 9)
    drawn = sampled(lm, [prompt] * number, range(number), max_tokens=2, temperature=0.5)
    counts = Counter(reply.reply_ids for reply in drawn)
    checked = 0
    for reply, count in counts.most_common(40):
        of_reply = next(sample for sample in drawn if sample.reply_ids == reply)
        probability = math.exp(sum(of_reply.logprobs))
        spread = math.sqrt(number * probability * (1 - probability))
        assert abs(count - number * probability) < 4 * spread + 1
        checked += count
    assert checked > number / 4, "the check covers a good part of all replies"


@torch.no_grad()
def test_temperature_divides_the_logits(lm, plain):
    ((token,), (logprob,)) = sampled(lm, [(7, 8, 9)], [0], temperature=0.5, max_tokens=1)[0]
    logits = plain(input_ids=torch.tensor([[7, 8, 9]])).logits[0, -1]
    assert logprob == pytest.approx(float((logits / 0.5).log_softmax(-1)[token]), abs=1e-4)


def test_a_reply_depends_on_its_own_prompt_and_generator_alone(ending):
    prompts = [*prompts_of(10), *[(5, 6, 7)] * 10]
    together = sampled(ending, prompts, range(20))
    alone = [sampled(ending, [prompt], [seed])[0] for seed, prompt in enumerate(prompts)]
    backwards = sampled(ending, prompts[::-1], range(19, -1, -1), max_batch_tokens=12)[::-1]
    ids = [reply.reply_ids for reply in together]
    assert [reply.reply_ids for reply in alone] == ids
    assert [reply.reply_ids for reply in backwards] == ids
    assert len({len(reply) for reply in ids}) > 2, "sequences leave the batch at different times"
    for a, b in zip(together, backwards, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


def test_equal_prompts_with_equal_seeds_get_equal_replies(lm):
    replies = sampled(lm, [(5, 6)] * 4, [3, 3, 4, 4])
    assert replies[0] == replies[1] != replies[2] == replies[3]


def test_no_prompt_gets_no_reply(lm):
    assert sampled(lm, [], []) == []
