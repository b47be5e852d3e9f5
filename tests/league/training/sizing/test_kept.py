"""What a layer keeps for its backward pass: the formula beside what autograd keeps, and beside an H100's memory."""

import json
import random

import pytest
import torch
from support.source import ROOT

from arena.lm.logprobs import ScoreOptions
from arena.lm.lora import Adapters, AdapterShape
from arena.lm.scoring import plan_passes
from arena.roofline import QWEN3_06B, RANK, Shape, kept_bytes, pass_bytes, state_bytes
from benchmarks.gpu.shapes import random_model

ROWS, PROMPT, REPLY = 16, 100, 28
H100 = ROOT / "benchmarks/results/gpu/nvidia-h100-80gb-hbm3.json"


def kept_by_autograd(shape, dtype, *, lora):
    """Return the bytes of all tensors that a forward pass keeps, each storage once, without the weights."""
    lm = random_model(shape, "cpu", dtype)
    lm.model.requires_grad_(True)
    if lora:
        lm = Adapters(lm, "base").add(AdapterShape(RANK), seed=0)
    weights = {weight.untyped_storage().data_ptr() for weight in lm.model.parameters()}
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    rng = random.Random(0)
    prompts, replies = ([tuple(rng.choices(range(100), k=k)) for _ in range(ROWS)] for k in (PROMPT, REPLY))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        scored = [one.scores(lm, ScoreOptions()).logprobs for one in plan_passes(lm, prompts, replies, 10**6)]
    assert all(part.requires_grad for part in scored)
    return sum(t.untyped_storage().nbytes() for address, t in kept.items() if address not in weights)


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "adapter"])
@pytest.mark.parametrize(("dtype", "bytes_each"), [("float32", 4), ("bfloat16", 2)])
def test_a_layer_keeps_what_the_formula_says(family, lora, dtype, bytes_each):
    shapes = [Shape("small", 512, layers, 8, 4, 128, 1536, 100, family) for layers in (1, 3)]
    one, three = (kept_by_autograd(shape, dtype, lora=lora) for shape in shapes)
    tokens = ROWS * (PROMPT + REPLY)
    assert (three - one) / 2 == pytest.approx(kept_bytes(shapes[0], tokens, bytes_each, lora=lora), rel=0.1)


@pytest.mark.parametrize(("weights", "lora"), [("LoRA", True), ("full", False)])
def test_an_h100_took_what_the_formula_says(weights, lora):
    cases = json.loads(H100.read_text())["parts"]["update"]["cases"]
    measured = next(case for case in cases if case["key"] == f"update/Qwen3-0.6B/{weights}/8192")
    kinds = {"lora": lora, "full": not lora, "checkpointing": False, "bytes_each": 2, "on_gpu": True}
    one = pass_bytes(QWEN3_06B, measured["pass_tokens"], measured["pass_tokens"] // 2, **kinds)
    held = state_bytes(QWEN3_06B, rank=RANK if lora else None, bytes_each=2)
    assert held + one == pytest.approx(measured["peak_memory"], rel=0.1)
