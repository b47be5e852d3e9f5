"""LOOP (arXiv 2502.01600): PPO at ratio 1 with leave-one-out advantages has the gradient of leave-one-out REINFORCE."""

import math
from collections import defaultdict

import pytest
import torch
from support.learning.slopes import gradient
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import brief, copied

from learners.advantages import RULES
from learners.batching import to_batch
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.normalisation import Normalisation
from learners.trajectories import Evidence

GROUP = 4


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(lm, request):
    """Return matches in groups of one start, with returns that differ: the equation holds for any."""
    return [
        t._replace(deal_seed=t.match // GROUP, match_return=math.sin(5 * t.match + t.seat))
        for t in self_play(lm, 4 * GROUP, request.param)
    ]


def leave_one_out(trajectories):
    """Return R_i less the mean of the other returns of its group, for every turn, by the formula alone."""
    groups = defaultdict(list)
    for t in trajectories:
        groups[t.deal_seed, t.seat].append(t.match_return)
    advantages = []
    for t in trajectories:
        others = list(groups[t.deal_seed, t.seat])
        others.remove(t.match_return)
        advantages.append([t.match_return - sum(others) / len(others)] * len(t.turns))
    return advantages


def gradient_of(lm, trajectories, advantages, surrogate, normalisation):
    batch = to_batch("main", trajectories, advantages, {}, Normalisation(normalisation))
    student = copied(lm)
    losses = BatchLoss(student, None, batch, Objective(surrogate, {}), max_tokens=8192)
    losses.record_old(MetricSums())  # the policy that played: every ratio is 1
    return gradient(student, losses.losses(0, MetricSums()))[1]


@pytest.mark.parametrize("normalisation", ["constant", "token_mean"])
@pytest.mark.parametrize("clip", [0.2, 1e-3])
def test_ppo_at_ratio_one_is_leave_one_out_reinforce(lm, trajectories, clip, normalisation):
    rule = RULES["rloo"]
    credited = rule.make(trajectories, [Evidence()] * len(trajectories), {}, rule.settings())
    loop = gradient_of(
        lm, trajectories, credited.advantages, Surrogate("ppo", {"clip_low": clip, "clip_high": clip}), normalisation
    )
    reinforce = gradient_of(lm, trajectories, leave_one_out(trajectories), Surrogate("reinforce"), normalisation)
    assert float(reinforce.abs().max()) > 1e-3
    torch.testing.assert_close(loop, reinforce, atol=1e-6 * max(1.0, float(reinforce.abs().max())), rtol=1e-4)
