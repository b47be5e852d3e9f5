"""A policy's file holds what is its own and no more, and brings it back bit for bit."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from support.models import adapter_memory
from support.models.pocket import pocket
from support.source import ROOT

from arena.lm.lora import Adapters, AdapterShape
from games.common.errors import UsageError
from learners.update.optimizers import make_optimizer
from learners.update.policy import Policy

SHAPE = AdapterShape(rank=2, alpha=4.0, targets=("q_proj",))
PROMPT, REPLY = (5, 6, 7), (8, 9)


class FakeCritic:
    """A critic that is two numbers."""

    def __init__(self):
        self.state = {"kuhn_poker/first/weight": torch.zeros(1), "kuhn_poker/first/step": torch.zeros(1)}

    def tensors(self):
        return self.state

    def load_tensors(self, tensors):
        self.state = tensors

    def reset(self):
        self.state = {name: torch.zeros(1) for name in self.state}


def adapter_policy(seed=0, adapters=None, **settings):
    lm = (adapters or Adapters(pocket(), "base")).add(SHAPE, seed)
    return Policy("main", lm, weight_decay=0.0, **{"magnet": True, "reference": True, **settings})


def full_policy(seed=0, **settings):
    return Policy("main", pocket(seed), weight_decay=0.0, **{"magnet": True, "reference": True, **settings})


def step(policy):
    (chunk,) = policy.lm.plan([PROMPT], [(REPLY,)], 8192)
    policy.optimizer.param_groups[0]["lr"] = 0.01
    policy.optimizer.zero_grad(set_to_none=True)
    policy.lm.reply_logits(chunk, [REPLY]).log_softmax(-1)[..., 9].sum().backward()
    policy.optimizer.step()
    policy.updates += 1


def logits(lm):
    (chunk,) = lm.plan([PROMPT], [(REPLY,)], 8192)
    with torch.no_grad():
        return lm.reply_logits(chunk, [REPLY])


@pytest.mark.parametrize("make", [adapter_policy, full_policy])
def test_a_restored_policy_goes_on_as_if_nothing_had_happened(make, tmp_path):
    policy, restored = make(0, critic=FakeCritic()), make(1, critic=FakeCritic())
    before = logits(policy.lm)
    step(policy)
    policy.refresh_magnet()
    step(policy)
    policy.entropy_means = {"kuhn_poker/first": math.pi}
    policy.critic.state["kuhn_poker/first/weight"] += 2.5
    policy.save(tmp_path / "policy.safetensors")
    restored.restore(tmp_path / "policy.safetensors")
    for _ in range(2):
        assert torch.equal(logits(policy.lm), logits(restored.lm))
        assert torch.equal(logits(policy.magnet), logits(restored.magnet))
        assert torch.equal(logits(restored.reference), before), "the reference is what was there before training"
        step(policy)
        step(restored)
    assert not torch.equal(logits(policy.lm), logits(policy.magnet))
    assert not torch.equal(logits(policy.magnet), before)
    assert restored.updates == policy.updates == 4
    assert restored.entropy_means == policy.entropy_means
    assert restored.critic.state == policy.critic.state


def test_only_an_adapters_own_weights_are_trained_and_saved(tmp_path):
    policy = adapter_policy()
    step(policy)
    policy.save(tmp_path / "policy.safetensors")
    shapes = {
        f"model.layers.{layer}.self_attn.q_proj.lora_{side}.weight": ((2, 32), (32, 2))[side == "B"]
        for layer in range(2)
        for side in "AB"
    }
    assert {name: tuple(weight.shape) for name, weight in policy.parameters.items()} == shapes
    parts = ("weights", "magnet", "exp_avg", "exp_avg_sq", "step")
    assert set(load_file(tmp_path / "policy.safetensors")) == {f"{p}/{name}" for p in parts for name in shapes} | {
        "updates"
    }
    assert all(weight.grad is None for name, weight in policy.lm.model.named_parameters() if "lora_" not in name)


def test_an_adapters_magnet_and_reference_are_on_the_same_base():
    policy = adapter_policy()
    assert policy.magnet.model is policy.reference.model is policy.lm.model
    assert not any(weight.requires_grad for weight in policy.magnet.parameters().values())
    assert policy.reference is policy.lm.adapters.base


def test_a_whole_models_reference_and_magnet_are_frozen_copies():
    policy = full_policy()
    where = [
        {weight.data_ptr() for weight in lm.model.parameters()} for lm in (policy.lm, policy.magnet, policy.reference)
    ]
    assert len(set.union(*where)) == sum(map(len, where))
    assert not any(w.requires_grad for lm in (policy.magnet, policy.reference) for w in lm.model.parameters())


def test_policies_on_one_base_are_saved_and_restored_apart(tmp_path):
    adapters = Adapters(pocket(), "base")
    first, other = adapter_policy(0, adapters), adapter_policy(1, adapters)
    step(first)
    before = logits(other.lm)
    first.save(tmp_path / "one.safetensors")
    step(first)
    first.restore(tmp_path / "one.safetensors")
    assert torch.equal(logits(other.lm), before)
    assert not other.optimizer.state


def test_a_policy_that_never_trained_has_no_optimiser_state(tmp_path):
    frozen = adapter_policy(magnet=False, reference=False)
    frozen.save(tmp_path / "frozen.safetensors")
    assert {name.split("/")[0] for name in load_file(tmp_path / "frozen.safetensors")} == {"weights", "updates"}


def test_another_shape_is_refused_by_name(tmp_path):
    adapter_policy().save(tmp_path / "two.safetensors")
    lm = Adapters(pocket(), "base").add(SHAPE._replace(rank=3), 0)
    with pytest.raises(UsageError, match=r"shape \(2, 32\) for weights/.*lora_A.*\(3, 32\)"):
        Policy("main", lm, weight_decay=0.0, magnet=False).restore(tmp_path / "two.safetensors")


@pytest.mark.parametrize("length", [0, 5, 0.5, 0.999])
def test_a_file_that_was_cut_off_is_refused_by_name(length, tmp_path):
    """Nothing of it, a piece of the header's length, half, all but the last bytes."""
    path = tmp_path / "cut.safetensors"
    full_policy().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: length if isinstance(length, int) else int(length * len(content))])
    with pytest.raises(UsageError, match=r"cut\.safetensors cannot be read as safetensors: .* Put an intact copy"):
        full_policy().restore(path)


@pytest.mark.thorough
def test_two_adapters_keep_less_than_a_fifth_more_than_one():
    """Parameters, optimiser state, magnets and references; the measure itself sees two whole models as twice one."""
    one_adapter, two_adapters = (adapter_memory.held(adapter_memory.trained("lora", number)) for number in (1, 2))
    assert one_adapter > 4 * 25_000_000, "the base itself is in it, in single precision"
    assert one_adapter < two_adapters < 1.2 * one_adapter


@pytest.mark.slow
def test_a_process_with_two_adapters_peaks_less_than_a_fifth_above_one():
    def peak(kind, number):
        words = [sys.executable, adapter_memory.__file__, kind, str(number)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        done = subprocess.run(words, env=environment, capture_output=True, check=True, text=True)
        return json.loads(done.stdout)["peak"]

    assert peak("lora", 2) < 1.2 * peak("lora", 1)
    assert peak("full", 2) > 1.6 * peak("full", 1)


def test_a_reset_policys_optimiser_begins_anew_and_an_evolved_ones_goes_on():
    policy, evolved = full_policy(), full_policy(1)
    step(policy)
    policy.entropy_means = {"kuhn_poker": 0.5}
    evolved.copy_from(policy)
    assert (evolved.updates, evolved.entropy_means) == (1, {"kuhn_poker": 0.5})
    assert len(evolved.optimizer.state) == len(policy.optimizer.state) > 0
    fresh = full_policy(2)
    evolved.reset(fresh.parameters)
    assert not evolved.optimizer.state
    step(evolved)
    step(fresh)
    assert torch.equal(logits(evolved.lm), logits(fresh.lm))


def test_weight_decay_shrinks_a_weight_without_gradient():
    """AdamW: w (1 - rate * decay) = 2 (1 - 0.1 * 0.5)."""
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = make_optimizer("adamw", [weight], 0.5)
    optimizer.param_groups[0]["lr"] = 0.1
    weight.grad = torch.zeros(1)
    optimizer.step()
    assert weight.item() == pytest.approx(1.9)
