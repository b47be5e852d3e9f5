"""The update: it moves towards what was rewarded, stops at what cannot be right, and continues where it was."""

import math

import pytest
import torch
from support.learning.updates import PLAIN, STEPS, batch_of, policy, weights
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play

from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from learners.losses.objective import EntropyBand, Objective, Surrogate
from learners.update.learner import LearningError, update
from learners.update.policy import Policy


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(request):
    return self_play(kuhn_pocket(), 12, request.param)


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


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_reference_pulls_back_and_stays_where_it_was(trajectories, estimator):
    learner = policy(reference=True)
    steps = STEPS._replace(max_gap=9.0)
    for _ in range(4):
        update(learner, batch_of(trajectories), PLAIN, steps)
    still = batch_of(trajectories, [[0.0] * len(t.turns) for t in trajectories])
    objective = Objective(Surrogate(), {}, kl_reference=1.0, kl_estimator=estimator)
    pulled = [update(learner, still, objective, steps)["reference_kl"] for _ in range(6)]
    assert pulled[0] > 1e-3
    assert pulled[-1] < 0.7 * pulled[0]
    for weight, start in zip(learner.reference.model.parameters(), kuhn_pocket().model.parameters(), strict=True):
        assert torch.equal(weight, start)


def tokens_in(trajectories):
    turns = [turn.trace for t in trajectories for turn in t.turns]
    return sum(len(trace.reply_ids) if trace.mask is None else 1 for trace in turns) / len(turns)


def test_the_running_mean_of_entropy_worked_by_hand(trajectories):
    """First the batch's own, then decay times the old and the rest of the new; by token, and only while it is used."""
    learner, steps = policy(), STEPS._replace(max_gap=9.0)
    objective = Objective(Surrogate(), {}, band=EntropyBand(0.1, decay=0.75))
    first = update(learner, batch_of(trajectories), objective, steps)
    mean = first["entropy/kuhn_poker"] / tokens_in(trajectories)
    assert first["outside_band"] == 0.0
    assert learner.entropy_means == {"kuhn_poker": pytest.approx(mean, rel=1e-5)}
    second = update(learner, batch_of(trajectories), objective, steps)
    mean = 0.75 * mean + 0.25 * second["entropy/kuhn_poker"] / tokens_in(trajectories)
    assert learner.entropy_means == {"kuhn_poker": pytest.approx(mean, rel=1e-5)}
    update(learner, batch_of(trajectories), PLAIN, steps)
    assert learner.entropy_means == {"kuhn_poker": pytest.approx(mean, rel=1e-5)}


@pytest.mark.parametrize(("share", "sign"), [(0.5, -1), (2.0, 1)])
def test_the_band_brings_entropy_back(trajectories, share, sign):
    """Entropy above a band falls, entropy below one rises."""
    learner, steps = policy(), STEPS._replace(max_gap=9.0, learning_rate=3e-4)
    still = batch_of(trajectories, [[0.0] * len(t.turns) for t in trajectories])
    start = update(learner, still, PLAIN, steps)["entropy/kuhn_poker"]
    learner.entropy_means = {"kuhn_poker": share * start / tokens_in(trajectories)}
    objective = Objective(Surrogate(), {}, band=EntropyBand(1.0, decay=1.0))
    metrics = [update(learner, still, objective, steps) for _ in range(5)]
    assert sign * (metrics[-1]["entropy/kuhn_poker"] - start) > 1e-3
    assert 0.0 < metrics[-1]["outside_band"] < metrics[0]["outside_band"]


def test_entropy_is_told_by_game(trajectories):
    half = len(trajectories) // 2
    games = [t._replace(game="other") if i < half else t for i, t in enumerate(trajectories)]
    metrics = update(policy(), batch_of(games), PLAIN, STEPS)
    turns = {name: sum(len(t.turns) for t in games if t.game == name) for name in ("other", "kuhn_poker")}
    mean = sum(turns[name] * metrics[f"entropy/{name}"] for name in turns) / sum(turns.values())
    assert metrics["entropy"] == pytest.approx(mean, abs=1e-5)
    assert metrics["entropy/other"] != metrics["entropy/kuhn_poker"]
    alone = update(policy(), batch_of(games[:half]), PLAIN, STEPS)
    assert alone["entropy/other"] == pytest.approx(metrics["entropy/other"], abs=1e-5)


def test_importance_is_told_while_it_is_used(trajectories):
    metrics = update(policy(), batch_of(trajectories), PLAIN._replace(truncate=2.0), STEPS)
    assert metrics["importance"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["truncated"] == 0.0
    assert "importance" not in update(policy(), batch_of(trajectories), PLAIN, STEPS)


def test_metrics_at_the_sampling_weights(trajectories):
    metrics = update(policy(), batch_of(trajectories), PLAIN, STEPS._replace(inner_steps=1))
    assert metrics["gap"] < 1e-4
    assert metrics["kl_old"] == 0.0
    assert metrics["clipped"] == 0.0
    assert metrics["entropy"] > 0.0
    assert metrics["grad_norm"] > 0.0


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_an_engine_that_played_other_weights_stops_the_run(trajectories, inner_steps):
    learner = policy()
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.mul_(1.3)
    before, batch = weights(learner), batch_of(trajectories)
    with pytest.raises(
        LearningError, match=r"recorded for main differ from the learner's by .*max_gap allows 0.05"
    ) as stop:
        update(learner, batch, PLAIN, STEPS._replace(inner_steps=inner_steps))
    assert stop.value.batch is batch
    assert torch.equal(weights(learner), before)
    assert learner.updates == 0


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_or_its_batch_is_left_out_and_the_next_one_is_learned_from(trajectories, inner_steps):
    learner, steps = policy(), STEPS._replace(inner_steps=inner_steps, drops=True)
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.mul_(1.3)
    before, batch = weights(learner), batch_of(trajectories)
    metrics = update(learner, batch, PLAIN, steps)
    assert metrics["dropped"] == 1.0
    assert metrics["gap"] > steps.max_gap
    assert metrics["ratio_outside"] > 0.0
    assert torch.equal(weights(learner), before)
    assert all(parameter.grad is None for parameter in learner.parameters.values())
    assert not learner.optimizer.state
    assert learner.updates == 0
    assert "dropped" not in update(learner, batch, PLAIN, steps._replace(max_gap=9.0))
    assert learner.updates == 1
    assert not torch.equal(weights(learner), before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_advantage_that_is_no_number_stops_the_run(trajectories, bad):
    learner, advantages = policy(), [[0.5] * len(t.turns) for t in trajectories]
    next(advantages_K for advantages_K in advantages if advantages_K)[0] = bad
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
    assert norms[0] == norms[1] > 1e-3, "the reported norm is that before clipping"
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
    for weight, other in zip(second.parameters.values(), straight.parameters.values(), strict=True):
        for moment, value in straight.optimizer.state[other].items():
            assert torch.equal(second.optimizer.state[weight][moment], value)


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
    for weight, copied in zip(learner.lm.model.parameters(), learner.magnet.model.parameters(), strict=True):
        assert torch.equal(weight, copied)
        assert weight.data_ptr() != copied.data_ptr()
        assert not copied.requires_grad
