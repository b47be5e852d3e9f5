"""Packed replies: each row once within the bound, and the numbers and gradients of each sequence by itself."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models.pocket import copied, plain_logprobs, plainly, pocket
from transformers import LlamaConfig, LlamaForCausalLM

from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.packing import lay_out, plan_packs
from arena.lm.scoring import PackedPass, PaddedPass, enable_checkpointing, plan_passes

OPENINGS = ((), (5,) * 40, (5,) * 40 + (6,) * 30, (7,) * 20)
middles = st.lists(st.integers(10, 200), max_size=9).map(tuple)
prompts = st.builds(
    lambda opening, middle, last: (*opening, *middle, last), st.sampled_from(OPENINGS), middles, st.integers(10, 200)
)
replies = st.lists(st.integers(10, 200), min_size=1, max_size=30).map(tuple)
rows = st.lists(st.tuples(prompts, replies), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def lm():
    return pocket(sharpness=2.0)


@pytest.fixture(scope="module")
def plain(lm, tmp_path_factory):
    return plainly(lm, tmp_path_factory.mktemp("plain"))


@given(rows, st.sampled_from([1, 60, 300, 8192]))
def test_every_row_once_within_the_bound(rows, max_tokens):
    prompts, replies = zip(*rows, strict=True)
    packs = plan_packs(prompts, replies, max_tokens, [(i,) for i in range(len(rows))])
    assert Counter(i for pack in packs for i in pack.items) == Counter(range(len(rows)))
    for pack in packs:
        layout = lay_out(pack, replies, torch.device("cpu"))
        assert layout.targets.tolist() == [token for i in pack.items for token in replies[i]]
        assert layout.ids.numel() <= max_tokens or len(pack.items) == 1
        read = iter(layout.ids[0].tolist())
        for chunk in pack.chunks:
            assert tuple(next(read) for _ in chunk.prefix) == chunk.prefix
            for item, suffix in zip(chunk.items, chunk.suffixes, strict=True):
                assert tuple(next(read) for _ in suffix) == suffix
                assert chunk.prefix + suffix == prompts[item] + replies[item][:-1]


@given(rows, st.integers(1, 3), st.sampled_from([1, 60, 300, 8192]))
def test_rows_of_a_unit_stay_in_one_pass(lm, rows, replies_each, max_tokens):
    prompts, replies, units = [], [], []
    for prompt, reply in rows:
        units.append(tuple(range(len(prompts), len(prompts) + replies_each)))
        prompts += [prompt] * replies_each
        replies += [reply] * replies_each
    units, left_out = units[1:], units[:1]
    passes = plan_passes(lm, prompts, replies, max_tokens, units)
    assert Counter(i for p in passes for i in p.items) == Counter(i for unit in units for i in unit)
    for unit in units:
        (unit_pass,) = [p for p in passes if set(unit) & set(p.items)]
        assert set(unit) <= set(unit_pass.items)
    assert not {i for p in passes for i in p.items} & set(left_out[0])


def test_no_rows_give_no_packs():
    assert plan_packs([], [], 10, []) == []


@settings(max_examples=25)
@given(rows, st.sampled_from([60, 8192]))
def test_packed_log_probs_are_those_of_each_sequence_by_itself(lm, plain, rows, max_tokens):
    """Against transformers' own eager attention, one sequence at a time, without any mask."""
    prompts, replies = zip(*rows, strict=True)
    with torch.no_grad():
        for packed in plan_passes(lm, prompts, replies, max_tokens):
            assert isinstance(packed, PackedPass)
            for row, item in zip(packed.scores(lm, ScoreOptions()).logprobs, packed.items, strict=True):
                expected = plain_logprobs(plain, prompts[item], replies[item])
                assert row[: len(expected)].tolist() == pytest.approx(expected, abs=2e-5)
                assert not row[len(expected) :].any()


def gradient(lm, passes):
    """Return the gradient of a sum that weighs every token's log-prob and entropy differently."""
    lm.model.zero_grad()
    for p in passes:
        scores = p.scores(lm, ScoreOptions(0.7))
        for row, item in enumerate(p.items):
            weights = torch.sin(torch.arange(scores.logprobs.shape[1]) + 3.0 * item)
            (weights * (scores.logprobs[row] + 0.5 * scores.entropy[row])).sum().backward(retain_graph=True)
    return torch.cat([parameter.grad.flatten() for parameter in lm.model.parameters()])


@settings(max_examples=10)
@given(rows)
def test_packed_gradients_are_those_of_each_sequence_by_itself(lm, rows):
    prompts, replies = zip(*rows, strict=True)
    single = [PaddedPass(chunk, replies) for chunk in lm.plan(prompts, [(reply,) for reply in replies], 1)]
    expected, packed = gradient(lm, single), gradient(lm, plan_passes(lm, prompts, replies, 8192))
    torch.testing.assert_close(packed, expected, rtol=0, atol=3e-6 * max(1.0, float(expected.abs().max())))


LONG = [((5,) * 40 + (i, 11), tuple(range(20, 20 + 3 * i))) for i in range(1, 12)] + [((9, 8), (7,) * 70)]


def test_a_sequences_scores_do_not_depend_on_other_sequences(lm):
    """Other tokens of the same lengths in other sequences change no bit."""
    prompts, replies = zip(*LONG, strict=True)
    other = [tuple(token + 100 for token in reply) if i else reply for i, reply in enumerate(replies)]
    with torch.no_grad():
        for changed in (replies, other):
            (packed,) = plan_passes(lm, prompts, changed, 8192)
            row = packed.items.index(0)
            if changed is replies:
                before = packed.scores(lm, ScoreOptions()).logprobs[row]
            else:
                assert torch.equal(packed.scores(lm, ScoreOptions()).logprobs[row], before)


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_checkpointing_changes_no_gradient_and_saves_activations(lm, family):
    student = copied(lm) if family == "qwen3" else llama(lm.tokenizer)
    prompts, replies = zip(*LONG, strict=True)
    passes = plan_passes(student, prompts, replies, 8192)
    full_gradient, full_bytes = gradient(student, passes), saved_bytes(student, passes)
    enable_checkpointing(student.model)
    torch.testing.assert_close(gradient(student, passes), full_gradient, rtol=0, atol=0)
    assert saved_bytes(student, passes) < 0.4 * full_bytes
    assert not student.model.training
    assert not any(module.training for module in student.model.modules())


def llama(tokenizer):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, **sizes)
    return LanguageModel(LlamaForCausalLM(config).eval(), tokenizer)


def saved_bytes(lm, passes):
    """Return the bytes that the forward passes save for the backward passes, without the weights."""
    weights = {parameter.data_ptr() for parameter in lm.model.parameters()}
    saved = {}

    def pack(tensor):
        if tensor.data_ptr() not in weights:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        scores = [p.scores(lm, ScoreOptions()) for p in passes]
    assert scores
    return sum(saved.values())
