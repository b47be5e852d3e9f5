"""The update: it moves towards what was rewarded, stops at what cannot be right, and goes on where it was."""

import math

import pytest
import torch
from small_play import CHOICE, FREE, kuhn_pocket, self_play

from arena.lm import LanguageModel
from games.errors import UsageError
from learners.batching import to_batch
from learners.learner import LearningError, Steps, update
from learners.losses import Surrogate
from learners.objective import Objective
from learners.policy import Policy

STEPS = Steps(learning_rate=1e-3, inner_steps=2, max_grad_norm=1.0, max_gap=0.05, budget=8192, minibatch=1000)
PLAIN = Objective(Surrogate(), {})


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(request):
    return self_play(kuhn_pocket(), 12, request.param)


def policy(magnet=False):
    return Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=magnet)


def batch_of(trajectories, advantages=None):
    if advantages is None:
        advantages = [[math.sin(7 * i + k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    return to_batch("main", trajectories, advantages, {})


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters.values()])


@torch.no_grad()
def logprob(lm, turn):
    trace = turn.trace
    if trace.mask is not None:
        tries = [lm.trie(trace.mask)]
        (chunk,) = lm.plan_choice([trace.prompt_ids], tries, 8192)
        return float(lm.choice_logprobs(chunk, tries, 1.0).replies[0, trace.mask.index(turn.reply)])
    (chunk,) = lm.plan([trace.prompt_ids], [(trace.reply_ids,)], 8192)
    logprobs = lm.reply_logits(chunk, [trace.reply_ids])[0].log_softmax(-1)
    return float(logprobs.gather(1, torch.tensor(trace.reply_ids)[:, None]).sum())


@pytest.mark.parametrize("surrogate", ["ppo", "reinforce"])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_reply_becomes_likelier_if_it_was_rewarded(trajectories, surrogate, advantage):
    learner = policy()
    first = trajectories[0]._replace(turns=trajectories[0].turns[:1])
    before = logprob(learner.lm, first.turns[0])
    objective = Objective(Surrogate(surrogate), {})
    metrics = update(learner, batch_of([first], [[advantage]]), objective, STEPS)
    assert (logprob(learner.lm, first.turns[0]) - before) * advantage > 1e-3
    assert learner.updates == 1
    assert metrics["loss"] == pytest.approx(-advantage * scale_of(first.turns[0], surrogate, before), abs=1e-4)


def scale_of(turn, surrogate, before):
    """Return what -A is multiplied by in the loss: the ratio 1 a token, or the log-prob for reinforce."""
    if surrogate == "reinforce":
        return before
    return 1 if turn.trace.mask is not None else len(turn.trace.reply_ids)


def test_no_advantage_moves_nothing(trajectories):
    learner = policy()
    before = weights(learner)
    metrics = update(learner, batch_of(trajectories, [[0.0] * len(t.turns) for t in trajectories]), PLAIN, STEPS)
    assert torch.equal(weights(learner), before)
    assert metrics["grad_norm"] == 0.0


def test_entropy_bonus_spreads_a_policy(trajectories):
    learner = policy()
    batch = batch_of(trajectories, [[0.0] * len(t.turns) for t in trajectories])
    objective = Objective(Surrogate(), {"kuhn_poker": 1.0})
    steps = STEPS._replace(learning_rate=1e-4, max_gap=9.0)
    entropies = [update(learner, batch, objective, steps)["entropy"] for _ in range(4)]
    assert entropies == sorted(entropies)
    assert entropies[-1] > entropies[0] + 1e-3


def test_the_old_policy_holds_an_update_back(trajectories):
    batch = batch_of(trajectories)
    steps = STEPS._replace(inner_steps=8, learning_rate=3e-4)
    moves = [
        update(policy(), batch, Objective(Surrogate("reinforce"), {}, kl_old=c), steps)["kl_old"] for c in (0.0, 5.0)
    ]
    assert moves[1] < 0.5 * moves[0]


def test_the_magnet_pulls_back(trajectories):
    learner = policy(magnet=True)
    batch = batch_of(trajectories)
    steps = STEPS._replace(max_gap=9.0)
    away = [update(learner, batch, PLAIN, steps) for _ in range(4)]
    still = batch_of(trajectories, [[0.0] * len(t.turns) for t in trajectories])
    pulled = [update(learner, still, Objective(Surrogate(), {}, magnet=1.0), steps)["magnet_kl"] for _ in range(6)]
    assert "magnet_kl" not in away[0], "without a weight it is not computed"
    assert pulled[0] > 1e-3
    assert pulled[-1] < 0.5 * pulled[0]
    learner.refresh_magnet()
    assert update(learner, still, Objective(Surrogate(), {}, magnet=1.0), steps)["magnet_kl"] == pytest.approx(
        0, abs=1e-6
    )


def test_metrics_at_the_sampling_weights(trajectories):
    metrics = update(policy(), batch_of(trajectories), PLAIN, STEPS._replace(inner_steps=1))
    assert metrics["gap"] < 1e-4
    assert metrics["kl_old"] == 0.0
    assert metrics["clipped"] == 0.0
    assert metrics["entropy"] > 0.0
    assert metrics["grad_norm"] > 0.0


def test_an_engine_that_played_other_weights_stops_the_run(trajectories):
    learner = policy()
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.mul_(1.3)
    before, batch = weights(learner), batch_of(trajectories)
    with pytest.raises(
        LearningError, match=r"recorded for main differ from the learner's by .*max_gap allows 0.05"
    ) as stop:
        update(learner, batch, PLAIN, STEPS)
    assert stop.value.batch is batch
    assert torch.equal(weights(learner), before)
    assert learner.updates == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_advantage_that_is_no_number_stops_the_run(trajectories, bad):
    learner, advantages = policy(), [[0.5] * len(t.turns) for t in trajectories]
    next(one for one in advantages if one)[0] = bad
    before, batch = weights(learner), batch_of(trajectories, advantages)
    with pytest.raises(LearningError, match=r"Policy 'main', update 1, step 1: the loss is") as stop:
        update(learner, batch, PLAIN, STEPS._replace(inner_steps=4, minibatch=1))
    assert stop.value.batch is batch
    assert torch.equal(weights(learner), before)
    assert not learner.optimizer.state


def test_a_gradient_is_clipped_to_its_norm(trajectories):
    steps = STEPS._replace(inner_steps=1)
    free, clipped = policy(), policy()
    norms = [
        update(learner, batch_of(trajectories), PLAIN, steps._replace(max_grad_norm=most))["grad_norm"]
        for learner, most in ((free, 1e9), (clipped, 1e-3))
    ]
    assert norms[0] == norms[1] > 1e-3, "the norm is told as it was before clipping"
    gradient = torch.cat([p.grad.flatten() for p in clipped.parameters.values()])
    assert float(gradient.norm()) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("magnet", [False, True])
def test_saved_and_restored_it_goes_on_bit_for_bit(trajectories, magnet, tmp_path):
    objective = Objective(Surrogate(), {"kuhn_poker": 0.05}, kl_old=0.3, magnet=0.1 if magnet else 0.0)
    steps, batch = STEPS._replace(max_gap=9.0), batch_of(trajectories)
    straight, first, second = policy(magnet), policy(magnet), policy(magnet)
    for _ in range(4):
        update(straight, batch, objective, steps)
    for _ in range(2):
        update(first, batch, objective, steps)
    first.save(tmp_path / "state.safetensors")
    second.restore(tmp_path / "state.safetensors")
    assert second.updates == 2
    for _ in range(2):
        update(second, batch, objective, steps)
    assert torch.equal(weights(second), weights(straight))
    for own, other in zip(second.parameters.values(), straight.parameters.values(), strict=True):
        for moment, value in straight.optimizer.state[other].items():
            assert torch.equal(second.optimizer.state[own][moment], value)


def test_a_state_before_the_first_update_forgets_later_moments(trajectories, tmp_path):
    fresh, used = policy(), policy()
    fresh.save(tmp_path / "state.safetensors")
    update(used, batch_of(trajectories), PLAIN, STEPS)
    used.restore(tmp_path / "state.safetensors")
    for learner in (fresh, used):
        update(learner, batch_of(trajectories), PLAIN, STEPS)
    assert torch.equal(weights(used), weights(fresh))


def test_a_state_of_another_shape_is_refused_by_name(tmp_path):
    Policy("main", kuhn_pocket(layers=1), weight_decay=0.0, magnet=False).save(tmp_path / "state.safetensors")
    with pytest.raises(UsageError, match=r"state.safetensors holds nothing for weights/.*layers\.1"):
        policy().restore(tmp_path / "state.safetensors")


def test_a_magnet_is_a_copy_that_does_not_learn():
    learner = policy(magnet=True)
    assert isinstance(learner.magnet, LanguageModel)
    for own, copied in zip(learner.lm.model.parameters(), learner.magnet.model.parameters(), strict=True):
        assert torch.equal(own, copied)
        assert own.data_ptr() != copied.data_ptr()
        assert not copied.requires_grad
