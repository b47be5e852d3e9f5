"""Which forward passes an update needs: the first step gives pi_old, and a frozen model answers an equal pass once."""

import pytest
import torch
from support.learning.updates import PLAIN, STEPS, batch_of, policy, weights
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play

from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import Objective, Surrogate
from learners.update.learner import update
from learners.update.passes import Passes


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(request):
    return self_play(kuhn_pocket(), 12, request.param)


def forward_passes(lm, monkeypatch):
    count, real = [0], lm.forward

    def forward(**inputs):
        count[0] += 1
        return real(**inputs)

    monkeypatch.setattr(lm, "forward", forward)
    return count


def test_where_each_step_takes_the_whole_batch_the_first_one_computes_pi_old(trajectories, monkeypatch):
    """A pass is saved, and no bit is another: neither of the weights nor of what is reported."""
    batch, objective = batch_of(trajectories), Objective(Surrogate(), {"kuhn_poker": 0.1}, kl_old=0.5)
    short, long = policy(), policy()
    count, longer = forward_passes(short.lm, monkeypatch), forward_passes(long.lm, monkeypatch)
    metrics = update(short, batch, objective, STEPS)
    monkeypatch.setattr(BatchLoss, "is_whole", False)
    expected = update(long, batch, objective, STEPS)
    assert metrics == expected
    assert metrics["gap"] < 1e-4
    assert torch.equal(weights(short), weights(long))
    assert count[0] * 3 == longer[0] * 2, "two steps, and before them a pass without gradients"


def test_a_split_batch_has_a_pass_before_its_steps(trajectories, monkeypatch):
    learner = policy()
    recorded = []
    real = Passes.record_old
    monkeypatch.setattr(Passes, "record_old", lambda self: recorded.append(1) or real(self))
    update(learner, batch_of(trajectories), PLAIN, STEPS._replace(minibatch=1))
    assert recorded == [1]


def test_the_magnet_is_not_asked_twice_for_the_same(monkeypatch):
    batch = batch_of(self_play(kuhn_pocket(), 12, CHOICE))
    objective, steps = Objective(Surrogate(), {}, magnet=0.5), STEPS._replace(max_gap=100.0)
    kept, forgetful = policy(magnet=True), policy(magnet=True)
    count = forward_passes(kept.magnet, monkeypatch)
    for number in range(4):
        if number == 2:
            kept.refresh_magnet(), forgetful.refresh_magnet()
        forgetful.frozen_results.clear()
        before = count[0]
        assert update(kept, batch, objective, steps) == update(forgetful, batch, objective, steps)
        assert (count[0] > before) == (number in (0, 2)), "new, and then with other weights"
    assert torch.equal(weights(kept), weights(forgetful))
