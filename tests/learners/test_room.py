"""A pass is sized by trial passes, which leave no trace."""

import math

import pytest
import torch
from support.matches.kuhn import FREE, kuhn_pocket, self_play

from arena.flops import COUNTED
from learners.batching import to_batch
from learners.losses.objective import Objective, Surrogate
from learners.update import learner
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy
from learners.update.room import tokens_with_room

STEPS = StepSettings(learning_rate=1e-3, inner_steps=2, max_grad_norm=1.0, max_gap=9.0, max_tokens=8192)
OBJECTIVE = Objective(Surrogate(), {"kuhn_poker": 0.1})


class Limited:
    """A memory in which a pass takes what ``bytes_of`` says."""

    def __init__(self, size, bytes_of):
        self.size, self.bytes_of, self.asked = size, bytes_of, []

    def room(self):
        return self.size

    def peak(self, run):
        run()
        taken = self.bytes_of(self.asked[-1])
        if taken > self.size:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return taken

    def run(self, tokens):
        self.asked.append(tokens)


@pytest.fixture(scope="module")
def batch():
    trajectories = self_play(kuhn_pocket(), 8, FREE)
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    return to_batch("main", trajectories, advantages, {})


def policy():
    return Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=False)


def size_of(memory, most, trained):
    trained.optimizer.state.clear()
    return tokens_with_room(trained, memory.run, most, memory)


def test_a_pass_is_as_large_as_memory_allows():
    """1,000 bytes at first and 10 a token: of 90,000 bytes 8,900 tokens fit, so 8,704, which is a multiple of 256."""
    trained = policy()
    state = 8 * sum(p.numel() for p in trained.parameters.values())
    memory = Limited((90_000 + state) / 0.9, lambda tokens: 1000 + 10 * tokens)
    assert size_of(memory, 32_768, trained) == 8704
    assert memory.asked == [512, 1024, 8704], "the number is proved by a pass"
    assert size_of(memory, 4096, trained) == 4096
    assert size_of(memory, 300, trained) == 300


def test_a_pass_that_takes_more_than_two_small_ones_told_is_cut_until_it_fits():
    trained = policy()
    state = 8 * sum(p.numel() for p in trained.parameters.values())
    memory = Limited((90_000 + state) / 0.9, lambda tokens: 10 * tokens * (1 if tokens < 2000 else 4))
    assert size_of(memory, 32_768, trained) == 1792
    assert memory.asked == [512, 1024, 8960, 6656, 4864, 3584, 2560, 1792], "three quarters each time"


def test_trial_passes_leave_no_trace(batch, monkeypatch):
    plain, tried = policy(), policy()
    expected = update(plain, batch, OBJECTIVE, STEPS)
    before = COUNTED.total
    memory = Limited(math.inf, lambda _: 0)
    memory.asked.append(0)
    monkeypatch.setattr(learner, "memory_of", lambda _: memory)
    found = update(tried, batch, OBJECTIVE, STEPS)
    assert found == expected | {"pass_tokens": STEPS.max_tokens}
    assert tried.pass_tokens == STEPS.max_tokens
    assert COUNTED.total > before
    for name, weight in plain.parameters.items():
        assert torch.equal(tried.parameters[name], weight)


def test_a_policy_on_a_cpu_is_not_measured():
    assert learner.memory_of(policy()) is None
