"""Moments that are away between steps: the same steps, to the last bit, and none of the process's memory."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from support.models.pocket import pocket
from support.source import ROOT
from torch.nn import Parameter

from games.common.errors import UsageError
from league.config.load import load
from learners.update import moments
from learners.update.moments import BLOCK, AwayMoments, in_blocks
from learners.update.optimizers import make_optimizer
from learners.update.policy import Policy


def policy(folder=None, dtype=torch.float32):
    lm = pocket()
    lm.model.to(dtype)
    return Policy("main", lm, weight_decay=0.1, magnet=False, offload=folder)


def learn(learner, seed, left_out=None):
    """Take a step with random gradients; one weight may have none."""
    numbers = torch.Generator().manual_seed(seed)
    for number, parameter in enumerate(learner.parameters.values()):
        gradient = torch.randn(parameter.shape, generator=numbers)
        parameter.grad = None if number == left_out else gradient
    learner.step(1e-2)
    learner.clear_gradients()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_are_the_same_to_the_last_bit(dtype, tmp_path):
    here, away = policy(dtype=dtype), policy(tmp_path, dtype)
    for seed in range(3):
        for learner in (here, away):
            learn(learner, seed, left_out=1 if seed == 1 else None)
    assert_equal(away.tensors(), here.tensors())
    for name, weight in here.lm.parameters().items():
        assert torch.equal(away.lm.parameters()[name], weight)
    steps = {key: int(step) for key, step in away.tensors().items() if key.startswith("step/")}
    assert sorted(steps.values())[0] == 2, "of the weight that had no gradient once"
    away.save(tmp_path / "main.safetensors")
    again, on_device = policy(tmp_path, dtype), policy(dtype=dtype)
    for learner in (again, on_device):  # what was away is read by those who have it here, and the other way round
        learner.restore(tmp_path / "main.safetensors")
    for learner in (here, again, on_device):
        learn(learner, 7)
    assert_equal(again.tensors(), here.tensors())
    assert_equal(on_device.tensors(), here.tensors())


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_moments_are_not_lost_with_their_pages_and_not_mixed_up(tmp_path):
    """Weights of odd sizes, an empty one among them, as of a process without a part of it."""
    weights = [Parameter(torch.zeros(size)) for size in ((3,), (0, 4), (1,), (1025,), (5, 7))]
    optimizer = make_optimizer("adamw", weights, 0.0)
    away = AwayMoments(optimizer, weights, tmp_path)
    for number, weight in enumerate(weights):
        weight.grad = torch.full_like(weight, number + 1.0)
    away.step()
    assert all(weight.grad is None for weight in weights), "they are freed one by one"
    for number, weight in enumerate(weights):
        state = optimizer.state[weight]
        torch.testing.assert_close(state["exp_avg"], torch.full_like(weight, 0.1 * (number + 1)))
        torch.testing.assert_close(state["exp_avg_sq"], torch.full_like(weight, 0.01 * (number + 1) ** 2))
    assert not list(tmp_path.iterdir()), "the file has no name"
    elsewhere = AwayMoments(make_optimizer("adamw", weights, 0.0), weights, tmp_path / "of another machine")
    weights[0].grad = torch.ones(3)
    elsewhere.step()


def test_page_locked_rooms_lie_in_blocks_of_which_little_is_wasted():
    """Both moments of 36 layers of Qwen3-4B's shape, and of its embedding, which is larger than a block."""
    layer = [2560 * 9728] * 3 + [2560 * 4096] * 2 + [2560 * 1024] * 2 + [2560] * 2 + [128] * 2
    sizes = {(n, m): 4 * size for m in range(2) for n, size in enumerate([151_936 * 2560, *layer * 36, 0])}
    places, ends = in_blocks(sizes, BLOCK)
    for block, end in enumerate(ends):
        inside = sorted((start, sizes[key]) for key, (number, start) in places.items() if number == block)
        assert all(start + size <= after for (start, size), (after, _) in pairwise(inside))
        assert inside[-1][0] + inside[-1][1] <= end <= max(BLOCK, *(size for _, size in inside)) + 4096
    rounded = sum(1 << (end - 1).bit_length() for end in ends if end)
    assert rounded < 1.1 * sum(sizes.values())
    assert in_blocks(sizes, 0)[1] == [sum(-(-size // 4096) * 4096 for size in sizes.values())], "a file is one"


def test_page_locked_rooms_are_not_mixed_up(monkeypatch, tmp_path):
    weights = [Parameter(torch.empty(size, device="meta")) for size in ((3,), (0, 4), (5, 7), (5000,))]
    empty = torch.empty
    monkeypatch.setattr(moments.torch, "empty", lambda size, dtype, pin_memory: empty(size, dtype=dtype))
    monkeypatch.setattr(moments, "BLOCK", 16384)
    away = AwayMoments(make_optimizer("adamw", weights, 0.0), weights, tmp_path)
    away._make_rooms()
    rooms = {key: room._tensor for key, room in away._rooms.items()}
    for number, room in enumerate(rooms.values()):
        room.fill_(number)
    for number, ((weight, _), room) in enumerate(rooms.items()):
        assert (room.shape, room.dtype) == (weight.shape, weight.dtype)
        assert room.is_meta or bool((room == number).all())
        assert room is not weight
    assert len({room.untyped_storage().data_ptr() for room in rooms.values() if not room.is_meta}) == 3


def test_the_room_of_a_part_without_numbers_is_its_own(tmp_path):
    """As of a shard that has none: it must not hold on to the weight, nor be one with its other moment."""
    weight = Parameter(torch.zeros(4, 3)[:0])
    optimizer = make_optimizer("adamw", [weight], 0.0)
    away = AwayMoments(optimizer, [weight], tmp_path)
    weight.grad = torch.zeros_like(weight)
    away.step()
    storages = [
        weight.untyped_storage(),
        *(optimizer.state[weight][name].untyped_storage() for name in moments.MOMENTS),
    ]
    assert [storage.nbytes() for storage in storages] == [48, 0, 0]


# In a process of its own: one that has freed much memory before keeps it, so what is allocated next takes no more.
RESIDENT = """
import gc, os, sys, torch
from pathlib import Path
from arena.process import give_memory_back
from learners.update import moments
from learners.update.moments import BLOCK, AwayMoments, in_blocks
from learners.update.optimizers import make_optimizer

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def step(numbers):
    weight = torch.nn.Parameter(torch.zeros(numbers))
    away = AwayMoments(make_optimizer("adamw", [weight], 0.0), [weight], Path(sys.argv[1]))
    before = resident()
    weight.grad = torch.ones(numbers)
    away.step()
    return resident() - before

give_memory_back()
step(10)  # which imports what a step needs
print(step(4_000_000))
"""


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what is resident")
def test_they_take_none_of_the_memory(tmp_path):
    words, environment = [sys.executable, "-c", RESIDENT, str(tmp_path)], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    assert int(done.stdout) < 4_000_000, "32 MB are in the file"


def test_moments_of_another_optimiser_are_refused():
    with pytest.raises(UsageError, match=r"Set one of them: optimizer\.offload = false"):
        load("pocket", ["optimizer.offload=true", "optimizer.name=adamw8bit"])
