"""Passes of a wide model with adapters: the sums of transformers and PEFT, and less rounding in bfloat16."""

import copy
import random

import pytest
import torch
from support.models.adapters import scrambled
from support.models.pocket import other_family, pocket
from transformers import LlamaConfig

from arena.lm.adapted_pass import AdaptedPass
from arena.lm.chunks import Chunk
from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape
from arena.lm.packing import Pack

WIDE = {"hidden_size": 512, "intermediate_size": 96}
LLAMA = LlamaConfig(
    **WIDE, vocab_size=300, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16
)


def _llama():
    torch.manual_seed(0)
    lm = other_family(copy.deepcopy(LLAMA))
    with torch.no_grad():  # norms begin with weights of 1
        for weight in lm.model.parameters():
            weight.mul_(0.5).add_(0.02 * torch.randn(weight.shape))
    return lm


BASES = {"llama": _llama, "qwen3": lambda: pocket(sharpness=1.0, **WIDE)}


def _views(base, targets=()):
    """Return two adapters on a base and the base itself."""
    adapters = Adapters(base, "base")
    shape = AdapterShape(4, 8.0, targets)
    views = [scrambled(adapters.add(shape, seed), seed) for seed in (1, 2)]
    for view in views:
        for weight in view.parameters().values():
            weight.data.mul_(0.2)
    return [*views, base]


def _chunk(prefix, lengths, seed=0):
    rng = random.Random(seed)
    suffixes = tuple([tuple(rng.choices(range(200), k=length)) for length in lengths])
    return Chunk(tuple(rng.choices(range(200), k=prefix)), tuple(range(len(lengths))), suffixes)


def _computed(view, run, *, own):
    """Return the logits, and the gradients of the view's adapter of a sum of log-probs."""
    adapters = view.adapters
    kept, adapters.passes = adapters.passes, adapters.passes if own else None
    try:
        view.model.zero_grad(set_to_none=True)
        logits = run(view).logits
        if isinstance(view.parameters().get("model.norm.weight"), torch.nn.Parameter):  # the base: it learns nothing
            return logits.detach(), []
        logits.log_softmax(-1)[..., 7].sum().backward()
        return logits.detach(), [weight.grad.clone() for weight in view.parameters().values()]
    finally:
        adapters.passes = kept


PACK = Pack((_chunk(9, [4, 1, 6, 3]), _chunk(0, [5], 1), _chunk(30, [2, 2, 2], 2)))
RUNS = {
    "packed": lambda view: view.run_pack(PACK),
    "rows": lambda view: view.run(_chunk(0, [4, 4, 4]), 1),
    "padded rows behind a prefix": lambda view: view.run(_chunk(7, [1, 5, 3]), 1),
    "two places kept": lambda view: view.run(_chunk(7, [5, 5]), 2),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("base", BASES)
def test_it_computes_what_transformers_and_peft_do(base, run):
    views, exact = _views(BASES[base]()), _views(LanguageModel(BASES[base]().model.double(), pocket().tokenizer))
    for view in exact[:2]:
        for weight in view.parameters().values():
            weight.data = weight.data.double()
    seen = []
    for view, other in zip(views, exact, strict=True):
        logits, gradients = _computed(view, run, own=True)
        expected, expected_gradients = _computed(other, run, own=False)
        torch.testing.assert_close(logits, expected.float(), rtol=1e-4, atol=1e-5)
        assert len(gradients) == len(expected_gradients)
        for gradient, one in zip(gradients, expected_gradients, strict=True):
            assert gradient.norm() > 0
            assert (gradient - one).norm() < 1e-4 * one.norm()
        seen.append(logits)
    assert not torch.allclose(seen[0], seen[1], atol=0.01)
    assert not torch.allclose(seen[0], seen[2], atol=0.01)


def test_layers_without_an_adapter_are_the_bases_own():
    view, _, _ = _views(_llama(), targets=("q_proj", "down_proj"))
    scrambled(view.adapters.add(AdapterShape(4, 8.0, ("q_proj", "k_proj")), 3), 3)  # another adapter has one there
    logits, gradients = _computed(view, RUNS["packed"], own=True)
    expected, others = _computed(view, RUNS["packed"], own=False)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert len(gradients) == 2 * 2 * 2
    for gradient, one in zip(gradients, others, strict=True):
        torch.testing.assert_close(gradient, one, rtol=1e-3, atol=1e-4)


def test_a_prefix_is_kept_as_transformers_keeps_it():
    view, _, _ = _views(_llama())
    chunk = _chunk(20, [3, 3])
    with torch.inference_mode():
        logits, inputs = view.run_with_prefix(chunk)
        torch.testing.assert_close(view.run(chunk, 1, prefix_inputs=inputs).logits[:, 0], logits)
        view.adapters.passes = None
        expected, others = view.run_with_prefix(chunk)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    for layer, other in zip(inputs["shared_prefix"], others["shared_prefix"], strict=True):
        torch.testing.assert_close(layer[0], other[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(layer[1], other[1], rtol=1e-4, atol=1e-5)


def test_in_bfloat16_it_rounds_less_than_transformers():
    """Against the same rounded weights in single precision; logits are no multiples of 1/16 or such."""
    errors = []
    for seed in range(4):
        whole = _llama()
        half = LanguageModel(copy.deepcopy(whole.model).bfloat16(), whole.tokenizer)
        whole.model.load_state_dict({name: weight.float() for name, weight in half.model.state_dict().items()})
        pack = Pack((_chunk(9, [4, 1, 6, 3], seed), _chunk(30, [2, 2, 2], seed + 9)))

        def run(view, pack=pack):
            return view.run_pack(pack)

        exact, gradients = _computed(_views(whole)[0], run, own=True)
        view = _views(half)[0]
        for own in (True, False):
            logits, others = _computed(view, run, own=own)
            error = (logits.float() - exact).norm() / exact.norm()
            of_gradients = sum((a - b).norm() for a, b in zip(gradients, others, strict=True))
            errors.append((float(error), float(of_gradients)))
            assert torch.equal(logits, logits.bfloat16()) is not own
            assert all(gradient.dtype == torch.float32 for gradient in others)
    own, theirs = errors[::2], errors[1::2]
    assert sum(error for error, _ in own) < 0.8 * sum(error for error, _ in theirs)
    assert sum(error for _, error in own) < 0.8 * sum(error for _, error in theirs)


def test_play_before_an_update_does_not_spoil_its_gradients():
    half = LanguageModel(_llama().model.bfloat16(), pocket().tokenizer)
    view, _, _ = _views(half)
    with torch.inference_mode():  # makes what is kept between passes
        played = RUNS["packed"](view).logits
    logits, gradients = _computed(view, RUNS["packed"], own=True)
    assert torch.equal(logits, played)
    assert gradients


def test_in_bfloat16_a_prefix_by_itself_is_that_of_a_pack_and_free_replies_are_read_behind_it():
    view, _, base = _views(LanguageModel(_llama().model.bfloat16(), pocket().tokenizer))
    chunk = _chunk(20, [1, 5, 3])
    with torch.inference_mode():
        for lm in (view, base):
            inputs = lm.prefix_inputs(chunk.prefix)
            assert {part.dtype for layer in inputs["shared_prefix"] for part in layer} == {torch.float32}
            alone, packed = lm.run(chunk, 1, prefix_inputs=inputs).logits[:, 0], lm.run_pack(Pack((chunk,))).logits[0]
            torch.testing.assert_close(alone, packed, rtol=0.0, atol=0.03 * float(packed.std()))
    prompts, rngs = [(*chunk.prefix * 12, *suffix) for suffix in chunk.suffixes], [random.Random(i) for i in range(3)]
    replies = generate(view, prompts, rngs, temperature=1.0, max_tokens=4, max_batch_tokens=4096)
    assert [0 < len(reply.reply_ids) <= 4 for reply in replies] == [True] * 3


def test_it_is_taken_only_where_it_suits():
    view, _, base = _views(_llama())
    adapters, rows = view.adapters, {"position_ids": 0, "input_ids": 0, "logits_to_keep": 1}
    assert adapters.passes_for(rows) is adapters.passes is not None
    assert adapters.passes_for(rows | {"past_key_values": object()}) is None
    assert adapters.passes_for(rows | {"output_hidden_states": True}) is None
    assert adapters.passes_for(rows | {"logits_to_keep": torch.empty(0)}) is None  # its states are read by a hook
    assert adapters.passes_for({"input_ids": 0, "use_cache": False}) is None
    assert adapters.passes_for({"input_ids": 0, "attention_mask": 0, "logits_to_keep": 1}) is None  # without positions
    base.model.double()
    assert adapters.passes_for(rows) is None
    assert AdaptedPass.of(pocket().model) is None  # narrow
    assert AdaptedPass.of(other_family(LlamaConfig(**LLAMA.to_dict() | {"attention_bias": True})).model) is None
