"""A bfloat16 model learns by single-precision weights: steps add up that rounding would lose."""

import math

import pytest
import torch
from support.matches.kuhn import FREE, kuhn_pocket, self_play

from learners.batching import to_batch
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import StepSettings, update
from learners.update.master_weights import MasterWeights
from learners.update.policy import Policy

STEPS = StepSettings(learning_rate=1e-5, inner_steps=2, max_grad_norm=1.0, max_gap=9.0, max_tokens=300)
OBJECTIVE = Objective(Surrogate(), {"kuhn_poker": 0.1}, kl_old=0.1, magnet=0.1)


def policy(dtype=torch.bfloat16):
    lm = kuhn_pocket()
    lm.model.to(dtype)
    return Policy("main", lm, weight_decay=0.0, magnet=True)


@pytest.fixture(scope="module")
def batch():
    trajectories = self_play(kuhn_pocket(), 12, FREE)
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    return to_batch("main", trajectories, advantages, {})


def check_rounded(learner):
    for weight, master in zip(learner.lm.model.parameters(), learner.parameters.values(), strict=True):
        assert (weight.dtype, master.dtype) == (torch.bfloat16, torch.float32)
        assert torch.equal(weight, master.bfloat16())


def test_steps_too_small_for_bfloat16_add_up():
    """Under a constant gradient AdamW moves a weight by its rate: 600 times 1e-5 from 1, whose last place is 2^-8."""
    plain, behind = (torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16)) for _ in range(2))
    masters = MasterWeights({"w": behind})
    for moved, optimised in ((plain, plain), (behind, masters.parameters["w"])):
        optimizer = torch.optim.AdamW([optimised], lr=1e-5, weight_decay=0.0)
        for _ in range(600):
            optimizer.zero_grad(set_to_none=True)
            moved.sum().backward()
            optimizer.step()
            masters.copy_to_model()
    assert plain.item() == 1.0
    assert float(masters.parameters["w"]) == pytest.approx(0.994, abs=1e-5)
    assert float(behind) == 0.9921875  # the nearest


def test_an_update_leaves_the_model_with_its_masters_rounded(batch):
    learner = policy()
    start = [weight.detach().clone() for weight in learner.parameters.values()]
    update(learner, batch, OBJECTIVE, STEPS)
    check_rounded(learner)
    moves = [float((a - b).abs().max().detach()) for a, b in zip(learner.parameters.values(), start, strict=True)]
    assert 0.5 * STEPS.learning_rate < max(moves) <= 2.1 * STEPS.learning_rate


def test_gradients_of_chunks_are_summed_in_single_precision():
    """1 + 2^-10 + … is 1 in bfloat16, whose last place is 2^-7 there."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    masters = MasterWeights({"w": weight})
    for size in (1.0, *[2.0**-10] * 8):
        (size * weight).sum().backward()
        assert weight.grad is None
    assert float(masters.parameters["w"].grad) == 1 + 8 * 2.0**-10


def test_single_precision_weights_are_their_own_masters():
    weight = torch.nn.Parameter(torch.ones(1))
    assert MasterWeights({"w": weight}).parameters["w"] is weight


def test_saved_and_restored_it_goes_on_bit_for_bit(batch, tmp_path):
    straight, first, second = policy(), policy(), policy()
    for _ in range(2):
        update(straight, batch, OBJECTIVE, STEPS)
    update(first, batch, OBJECTIVE, STEPS)
    first.save(tmp_path / "state.safetensors")
    second.restore(tmp_path / "state.safetensors")
    check_rounded(second)
    update(second, batch, OBJECTIVE, STEPS)
    for name, tensor in straight.tensors().items():
        assert torch.equal(second.tensors()[name], tensor), name


def test_weights_from_outside_reach_the_model():
    learner, other = policy(), kuhn_pocket(seed=3)
    learner.reset(other.parameters())
    check_rounded(learner)
    assert torch.equal(learner.lm.model.lm_head.weight, other.model.lm_head.weight.bfloat16())


def test_a_policy_that_takes_over_goes_on_as_the_one_before(batch):
    straight, before = policy(), policy()
    for _ in range(2):
        update(straight, batch, OBJECTIVE, STEPS)
    update(before, batch, OBJECTIVE, STEPS)
    after = Policy("main", before.lm, weight_decay=0.0, magnet=True)
    after.copy_from(before)
    update(after, batch, OBJECTIVE, STEPS)
    for name, tensor in straight.tensors().items():
        assert torch.equal(after.tensors()[name], tensor), name
