"""A small policy of Kuhn poker, a batch for it, and how it is updated in tests."""

import math

import torch

from learners.batching import to_batch
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import StepSettings
from learners.update.policy import Policy
from support.matches.kuhn import kuhn_pocket

STEPS = StepSettings(
    learning_rate=1e-3, inner_steps=2, max_grad_norm=1.0, max_gap=0.05, max_tokens=8192, minibatch=1000
)
PLAIN = Objective(Surrogate(), {})


def policy(magnet=False, reference=False):
    return Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=magnet, reference=reference)


def batch_of(trajectories, advantages=None):
    if advantages is None:
        advantages = [[math.sin(7 * i + k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    return to_batch("main", trajectories, advantages, {})


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters.values()])
