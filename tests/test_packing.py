"""Packed replies: each row once within the budget, and the numbers and gradients of each sequence by itself."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import copied, plain_logprobs, plainly, pocket
from transformers import LlamaConfig, LlamaForCausalLM

from arena.checkpointing import enable_checkpointing
from arena.lm import LanguageModel
from arena.logprobs import Asked
from arena.packing import lay_out, plan_packs
from arena.scoring import PackedPass, PaddedPass, plan_passes

OPENINGS = ((), (5,) * 40, (5,) * 40 + (6,) * 30, (7,) * 20)
some = st.lists(st.integers(10, 200), max_size=9).map(tuple)
prompts = st.builds(
    lambda opening, own, last: (*opening, *own, last), st.sampled_from(OPENINGS), some, st.integers(10, 200)
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
def test_every_row_once_within_the_budget(rows, budget):
    prompts, replies = zip(*rows, strict=True)
    packs = plan_packs(prompts, replies, budget, [(i,) for i in range(len(rows))])
    assert Counter(i for pack in packs for i in pack.items) == Counter(range(len(rows)))
    for pack in packs:
        layout = lay_out(pack, replies, torch.device("cpu"))
        assert layout.targets.tolist() == [token for i in pack.items for token in replies[i]]
        assert layout.ids.numel() <= budget or len(pack.items) == 1
        read = iter(layout.ids[0].tolist())
        for chunk in pack.chunks:
            assert tuple(next(read) for _ in chunk.prefix) == chunk.prefix
            for item, suffix in zip(chunk.items, chunk.suffixes, strict=True):
                assert tuple(next(read) for _ in suffix) == suffix
                assert chunk.prefix + suffix == prompts[item] + replies[item][:-1]


@given(rows, st.integers(1, 3), st.sampled_from([1, 60, 300, 8192]))
def test_rows_of_a_unit_stay_in_one_pass(lm, rows, replies_each, budget):
    prompts, replies, units = [], [], []
    for prompt, reply in rows:
        units.append(tuple(range(len(prompts), len(prompts) + replies_each)))
        prompts += [prompt] * replies_each
        replies += [reply] * replies_each
    units, left_out = units[1:], units[:1]
    passes = plan_passes(lm, prompts, replies, budget, units)
    assert Counter(i for one in passes for i in one.items) == Counter(i for unit in units for i in unit)
    for unit in units:
        (own,) = [one for one in passes if set(unit) & set(one.items)]
        assert set(unit) <= set(own.items)
    assert not {i for one in passes for i in one.items} & set(left_out[0])


def test_nothing_is_packed_from_nothing():
    assert plan_packs([], [], 10, []) == []


@settings(max_examples=25)
@given(rows, st.sampled_from([60, 8192]))
def test_packed_log_probs_are_those_of_each_sequence_by_itself(lm, plain, rows, budget):
    """Against transformers' own eager attention, one sequence at a time, without any mask."""
    prompts, replies = zip(*rows, strict=True)
    with torch.no_grad():
        for one in plan_passes(lm, prompts, replies, budget):
            assert isinstance(one, PackedPass)
            for own, item in zip(one.scores(lm, Asked()).logprobs, one.items, strict=True):
                wanted = plain_logprobs(plain, prompts[item], replies[item])
                assert own[: len(wanted)].tolist() == pytest.approx(wanted, abs=2e-5)
                assert not own[len(wanted) :].any()


def gradient(lm, passes):
    """Return the gradient of a sum that weighs every token's log-prob and entropy differently."""
    lm.model.zero_grad()
    for one in passes:
        scores = one.scores(lm, Asked(0.7))
        for row, item in enumerate(one.items):
            weights = torch.sin(torch.arange(scores.logprobs.shape[1]) + 3.0 * item)
            (weights * (scores.logprobs[row] + 0.5 * scores.entropy[row])).sum().backward(retain_graph=True)
    return torch.cat([parameter.grad.flatten() for parameter in lm.model.parameters()])


@settings(max_examples=10)
@given(rows)
def test_packed_gradients_are_those_of_each_sequence_by_itself(lm, rows):
    prompts, replies = zip(*rows, strict=True)
    apart = [PaddedPass(chunk, replies) for chunk in lm.plan(prompts, [(reply,) for reply in replies], 1)]
    wanted, found = gradient(lm, apart), gradient(lm, plan_passes(lm, prompts, replies, 8192))
    torch.testing.assert_close(found, wanted, rtol=0, atol=3e-6 * max(1.0, float(wanted.abs().max())))


LONG = [((5,) * 40 + (i, 11), tuple(range(20, 20 + 3 * i))) for i in range(1, 12)] + [((9, 8), (7,) * 70)]


def test_what_one_sequence_says_does_not_depend_on_the_others(lm):
    """Bit for bit nothing of another sequence is looked at: other tokens of the same lengths change nothing."""
    prompts, replies = zip(*LONG, strict=True)
    other = [tuple(token + 100 for token in reply) if i else reply for i, reply in enumerate(replies)]
    with torch.no_grad():
        for changed in (replies, other):
            (one,) = plan_passes(lm, prompts, changed, 8192)
            row = one.items.index(0)
            if changed is replies:
                before = one.scores(lm, Asked()).logprobs[row]
            else:
                assert torch.equal(one.scores(lm, Asked()).logprobs[row], before)


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_checkpointing_changes_no_gradient_and_saves_activations(lm, family):
    student = copied(lm) if family == "qwen3" else llama(lm.tokenizer)
    prompts, replies = zip(*LONG, strict=True)
    passes = plan_passes(student, prompts, replies, 8192)
    whole, kept = gradient(student, passes), saved_bytes(student, passes)
    enable_checkpointing(student.model)
    torch.testing.assert_close(gradient(student, passes), whole, rtol=0, atol=0)
    assert saved_bytes(student, passes) < 0.4 * kept
    assert not student.model.training
    assert not any(module.training for module in student.model.modules())


def llama(tokenizer):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, **sizes)
    return LanguageModel(LlamaForCausalLM(config).eval(), tokenizer)


def saved_bytes(lm, passes):
    """Return how much the forward passes keep for the backward ones, the weights not counted."""
    weights = {parameter.data_ptr() for parameter in lm.model.parameters()}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = [one.scores(lm, Asked()) for one in passes]
    assert held
    return sum(kept.values())
