"""Adapters on one base: each plays and learns as if it had its own model, without an effect on the others."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models.adapters import PROMPTS, REPLIES, SHAPE, logits, logprobs, same, scrambled
from support.models.pocket import other_family, pocket
from transformers import GPT2Config, MambaConfig

from arena.lm.decoding.decode import generate
from arena.lm.lora import Adapters, AdapterShape
from arena.samplers.torch_lm import TorchLM
from games.common.errors import UsageError


@pytest.fixture
def base():
    return pocket()


@pytest.fixture
def adapters(base):
    return Adapters(base, "../../base")


def step(view):
    """Take one optimiser step on a view's parameters."""
    optimizer = torch.optim.AdamW(view.parameters().values(), lr=0.1)
    loss = sum(view.reply_logits(chunk, REPLIES).sum() for chunk in view.plan(PROMPTS, [(r,) for r in REPLIES], 8192))
    loss.backward()
    optimizer.step()


def test_a_new_adapter_plays_exactly_as_its_base(base, monkeypatch):
    monkeypatch.setattr(base, "plain", None)  # its passes differ from the modules', which adapters need, by rounding
    before = logits(base)
    adapters = Adapters(base, "base")
    assert same(logits(adapters.add(SHAPE, seed=0)), before)
    assert same(logits(base), before)


def test_training_one_adapter_leaves_the_others_and_the_base_bit_equal(base, adapters):
    first, other = scrambled(adapters.add(SHAPE, 0), 1), scrambled(adapters.add(AdapterShape(2, 4.0), 1), 2)
    before = [logits(view) for view in (base, first, other)]
    step(first)
    after = [logits(view) for view in (base, first, other)]
    assert same(before[0], after[0])
    assert not same(before[1], after[1])
    assert same(before[2], after[2])
    assert all(weight.grad is None for weight in other.parameters().values())
    assert all(weight.grad is not None for weight in first.parameters().values())


def test_views_may_take_turns_between_forward_and_backward(base, adapters):
    """Gradients of two losses built in turns are those of the losses built alone."""
    views = [scrambled(adapters.add(SHAPE, i), i) for i in range(2)]

    def gradients(order):
        for view in views:
            for weight in view.parameters().values():
                weight.grad = None
        for together in order:
            losses = [
                view.reply_logits(chunk, REPLIES).log_softmax(-1)[..., 30].sum()
                for view in together
                for chunk in view.plan(PROMPTS, [(r,) for r in REPLIES], 8192)
            ]
            adapters.activate(None)
            sum(losses).backward()
        return [weight.grad.clone() for view in views for weight in view.parameters().values()]

    assert same(gradients([views]), gradients([[views[0]], [views[1]]]))


def test_adding_loading_and_dropping_others_keeps_what_is_trained(base, adapters, tmp_path):
    first = scrambled(adapters.add(SHAPE, 0))
    before = logits(first)
    first.save(tmp_path)
    with torch.inference_mode():  # as the engine loads a snapshot in the middle of sampling
        snapshot = first.with_weights(tmp_path)
    magnet = first.frozen_copy()
    other = adapters.add(SHAPE, 1)
    assert [all(w.requires_grad for w in v.parameters().values()) for v in (first, snapshot, magnet, other)] == [
        True,
        False,
        False,
        True,
    ]
    assert not any(w.requires_grad for n, w in base.model.named_parameters() if "lora_" not in n)
    assert same(logits(snapshot), before)
    assert same(logits(magnet), before)
    step(first)
    assert same(logits(magnet), before)
    expected = logits(first)
    number = len(list(base.model.parameters()))
    for view in (snapshot, magnet):
        view.release()
    assert same(logits(first), expected)
    assert number - len(list(base.model.parameters())) == 2 * len(first.parameters())


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "copy", "freeze", "release", "step"]), st.integers(0, 9)), max_size=12)
)
def test_in_any_order_each_view_equals_one_on_its_own_base(operations):
    shared = Adapters(pocket(), "base")
    views, lone = [], []  # on one base, and their twins on bases of their own
    for name, number in [("add", 0), *operations]:
        at = number % len(views) if views else 0
        if name == "add":
            shape = AdapterShape(1 + number % 3, 4.0, ((), ("q_proj",), ("down_proj", "up_proj"))[number % 3])
            views.append(scrambled(shared.add(shape, number), number))
            lone.append(scrambled(Adapters(pocket(), "base").add(shape, number), number))
        elif name in ("copy", "freeze") and views:
            for all_views in (views, lone):
                all_views.append(all_views[at].copy() if name == "copy" else all_views[at].frozen_copy())
        elif name == "release" and views:
            views.pop(at).release()
            lone.pop(at)
        elif name == "step" and views and next(iter(views[at].parameters().values())).requires_grad:
            step(views[at])
            step(lone[at])
    for view, twin in zip(views, lone, strict=True):
        torch.testing.assert_close(logits(view)[0], logits(twin)[0], atol=1e-5, rtol=1e-5)
    assert same(logits(shared.base), logits(Adapters(pocket(), "base").base))


def test_no_weight_of_the_base_is_ever_copied(base, tmp_path):
    where = sorted(weight.data_ptr() for weight in base.model.parameters())
    adapters = Adapters(base, "base")
    first = adapters.add(SHAPE, 0)
    first.save(tmp_path)
    for view in (first, adapters.add(SHAPE, 1), first.frozen_copy(), first.untrained(), first.with_weights(tmp_path)):
        assert sorted(w.data_ptr() for n, w in view.model.named_parameters() if "lora_" not in n) == where
    for forbidden in (base.copy, base.frozen_copy, lambda: base.save(tmp_path / "base")):
        with pytest.raises(ValueError, match="neither copied nor saved"):
            forbidden()


def test_a_copy_is_trained_independently(adapters):
    first = scrambled(adapters.add(SHAPE, 0))
    before = logits(first)
    other = first.copy()
    step(first)
    assert same(logits(other), before)
    step(other)
    assert same(logits(other), logits(first))


def test_another_architecture_with_transposed_layers(tmp_path):
    """GPT-2's Conv1D, against a base into whose weights the same adapter was merged by hand."""
    config = GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=1024)
    base, merged = other_family(config), other_family(config)
    view = scrambled(Adapters(base, "base").add(SHAPE, 0))
    weights = view.parameters()
    with torch.no_grad():
        for name, weight in merged.model.named_parameters():
            stem = name.removesuffix(".weight")
            if f"{stem}.lora_A.weight" in weights:
                weight += 2.0 * (weights[f"{stem}.lora_B.weight"] @ weights[f"{stem}.lora_A.weight"]).T
    for adapted, row in zip(logprobs(view), logprobs(merged), strict=True):
        assert adapted == pytest.approx(row, abs=1e-4)


def test_decoding_samples_from_the_adapter(adapters):
    """Free replies of two views and the base, each with the log-probs of its own weights."""
    views = [scrambled(adapters.add(SHAPE, 0), 1), adapters.base, scrambled(adapters.add(SHAPE, 1), 2)]
    for view in views:
        rngs = [random.Random(i) for i in range(len(PROMPTS))]
        sampled = generate(view, PROMPTS, rngs, temperature=1.0, max_tokens=5, max_batch_tokens=8192)
        expected = logprobs(view, PROMPTS, [reply.reply_ids for reply in sampled])
        for reply, row in zip(sampled, expected, strict=True):
            assert reply.logprobs == pytest.approx(row, abs=1e-4)


def test_the_engine_frees_the_adapters_that_it_drops(adapters, tmp_path):
    live = adapters.add(SHAPE, 0)
    engine = TorchLM(loaded=2)
    expected = {}
    for number in range(4):
        scrambled(live, number).save(tmp_path / f"s{number}")
        expected[f"s{number}"] = logits(live)
        engine.register(f"s{number}", tmp_path / f"s{number}", like=live)
    for name in ("s0", "s1", "s2", "s3", "s0", "s3"):
        assert same(logits(engine.model_of(name)), expected[name])
    weights = [name for name, _ in adapters.base.model.named_parameters() if "lora_" in name]
    assert len(weights) == 3 * len(live.parameters())


def test_a_seed_fixes_an_adapter_and_leaves_the_processs_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    views = [Adapters(pocket(), "base").add(SHAPE, seed) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(1), expected)
    first, again, other = ([w for n, w in v.parameters().items() if "lora_A" in n] for v in views)
    assert same(first, again)
    assert not same(first, other)


def test_half_precision_bases_have_adapters_in_full_precision(base):
    base.model.to(torch.bfloat16)
    view = scrambled(Adapters(base, "base").add(SHAPE, 0))
    assert {weight.dtype for weight in view.parameters().values()} == {torch.float32}
    assert logits(view)[0].dtype == torch.bfloat16


def test_targets_that_name_no_module_are_refused_with_those_that_do(adapters):
    with pytest.raises(UsageError, match=r"no linear layer of Qwen3ForCausalLM named 'c_attn'.*q_proj"):
        adapters.add(AdapterShape(targets=("q_proj", "c_attn")), 0)
    with pytest.raises(UsageError, match="lm_head"):
        adapters.add(AdapterShape(targets=("lm_head",)), 0)
    only = adapters.add(AdapterShape(targets=("self_attn.q_proj",)), 0)
    assert {name.split(".lora_")[0] for name in only.parameters()} == {
        f"model.layers.{layer}.self_attn.q_proj" for layer in range(2)
    }
    everywhere = {name.split(".")[-3] for name in adapters.add(SHAPE, 0).parameters()}
    assert everywhere == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_a_model_that_peft_cannot_adapt_is_refused_with_the_reason():
    config = MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, state_size=4)
    with pytest.raises(UsageError, match=r"PEFT cannot adapt .*out_proj.* of MambaForCausalLM.*targets"):
        Adapters(other_family(config), "base").add(SHAPE, 0)


def test_adapters_that_an_engine_loads_while_it_samples_let_others_be_added(adapters, tmp_path):
    view = scrambled(adapters.add(SHAPE, 1))
    view.save(tmp_path / "one")
    engine = TorchLM()
    engine.register("one", tmp_path / "one", like=adapters)
    with torch.inference_mode():  # as the engine is when it first needs one
        loaded = engine.model_of("one")
    adapters.activate(loaded.adapter)
    again = adapters.with_weights(tmp_path / "one").copy()
    assert all(parameter.requires_grad for parameter in again.parameters().values())
    assert logprobs(again) == logprobs(view)


def test_a_layer_that_adds_in_place_computes_what_pefts_does(base, adapters):
    view = scrambled(adapters.add(SHAPE, seed=0))
    [layer, *_] = [module for module in base.model.modules() if hasattr(module, "lora_A")]
    view.adapters.activate(view.adapter)
    x = torch.randn(3, 5, layer.in_features, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weights = [layer.lora_A[view.adapter].weight, layer.lora_B[view.adapter].weight]

    def learned(forward):
        output = forward(x)
        return output, *torch.autograd.grad((output * output).sum(), [x, *weights])

    for ours, pefts in zip(learned(layer), learned(lambda x: type(layer).forward(layer, x)), strict=True):
        torch.testing.assert_close(ours, pefts, rtol=1e-4, atol=1e-5)
