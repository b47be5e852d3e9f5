"""The optimiser in 8 bits: it follows the one in single precision, and is saved and restored to the bit."""

import importlib.util
import math

import pytest
import torch
from safetensors.torch import load_file
from support.matches.kuhn import FREE, kuhn_pocket, self_play

from games.common.errors import UsageError
from learners.batching import to_batch
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import StepSettings, update
from learners.update.optimizers import make_optimizer
from learners.update.policy import Policy

STEPS = StepSettings(learning_rate=1e-3, inner_steps=2, max_grad_norm=1.0, max_gap=9.0, max_tokens=8192)
OBJECTIVE = Objective(Surrogate(), {"kuhn_poker": 0.1})
INSTALLED = importlib.util.find_spec("bitsandbytes") is not None

with_bitsandbytes = pytest.mark.skipif(not INSTALLED, reason="needs the extra 8bit")


@pytest.mark.skipif(INSTALLED, reason="bitsandbytes is there")
def test_without_bitsandbytes_a_sentence_says_what_to_install():
    with pytest.raises(UsageError, match=r"optimizer.name = 'adamw8bit'.*pip install 'llm-league\[8bit\]'"):
        make_optimizer("adamw8bit", [torch.nn.Parameter(torch.zeros(1))], 0.0)


@pytest.fixture(scope="module")
def batch():
    trajectories = self_play(kuhn_pocket(), 8, FREE)
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    return to_batch("main", trajectories, advantages, {})


def policy(optimizer="adamw8bit"):
    return Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=False, optimizer=optimizer)


@with_bitsandbytes
def test_eight_bits_follow_single_precision():
    """On a quadratic valley both come down; their paths differ by what quantisation adds to a step, a few per cent."""
    start = torch.linspace(-2, 2, 64 * 128).reshape(64, 128)
    ends = []
    for name in ("adamw", "adamw8bit"):
        weight = torch.nn.Parameter(start.clone())
        optimizer = make_optimizer(name, [weight], 0.0)
        optimizer.param_groups[0]["lr"] = 0.01
        for _ in range(50):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        ends.append(weight.detach() - start)
    assert float((ends[1] - ends[0]).norm() / ends[0].norm()) < 0.1


@with_bitsandbytes
def test_saved_and_restored_it_goes_on_bit_for_bit(batch, tmp_path):
    straight, first, second = policy(), policy(), policy()
    for _ in range(2):
        update(straight, batch, OBJECTIVE, STEPS)
    update(first, batch, OBJECTIVE, STEPS)
    first.save(tmp_path / "state.safetensors")
    tensors = load_file(tmp_path / "state.safetensors")
    assert any(name.startswith("state1/") and value.dtype == torch.uint8 for name, value in tensors.items())
    second.restore(tmp_path / "state.safetensors")
    update(second, batch, OBJECTIVE, STEPS)
    for name, tensor in straight.tensors().items():
        assert torch.equal(second.tensors()[name], tensor), name


@with_bitsandbytes
def test_what_another_optimiser_remembered_is_left_behind(batch, tmp_path):
    full = policy("adamw")
    update(full, batch, OBJECTIVE, STEPS)
    full.save(tmp_path / "state.safetensors")
    eight = policy()
    eight.restore(tmp_path / "state.safetensors")
    assert not eight.optimizer.state
    update(eight, batch, OBJECTIVE, STEPS)


@pytest.mark.parametrize("saved_by", [True, False], ids=["saved fused", "saved plain"])
def test_a_fused_optimizer_goes_on_from_what_either_kind_saved(saved_by, batch, tmp_path, monkeypatch):
    """A GPU updates all weights by one kernel and keeps step counts there; PyTorch has that kernel for CPUs too."""

    def fuse(fused):
        monkeypatch.setattr("learners.update.optimizers.FUSED", frozenset({"cpu"} if fused else ()))

    fuse(saved_by)
    through = policy("adamw")
    assert bool(through.optimizer.defaults["fused"]) == saved_by
    update(through, batch, OBJECTIVE, STEPS)
    through.save(tmp_path / "state.safetensors")
    update(through, batch, OBJECTIVE, STEPS)
    fuse(True)
    resumed = policy("adamw")
    resumed.restore(tmp_path / "state.safetensors")
    update(resumed, batch, OBJECTIVE, STEPS)
    for name, weight in through.parameters.items():
        torch.testing.assert_close(resumed.parameters[name], weight, atol=1e-6, rtol=1e-4)
