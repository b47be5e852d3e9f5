"""Losses through a trainer's waist have the gradient that they have without it, and what cannot pass is refused."""

import math

import pytest
import torch
from support.learning.slopes import gradient
from support.learning.updates import STEPS as CAREFUL
from support.learning.updates import batch_of as batch_of_updates
from support.learning.waist_cases import KL, OBJECTIVES, batch_of, gradient_of, losses_of, through
from support.matches.kuhn import kuhn_pocket, self_play
from support.models.pocket import brief
from support.models.torch_trainer import TorchTrainer

from games.common.errors import UsageError
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import EntropyBand, Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.update.learner import LearningError, update
from learners.update.policy import Policy
from learners.waist import AskedReply, Waist

STEPS = CAREFUL._replace(max_gap=100.0)  # one batch is learned several times


def assert_the_same_weights(here, elsewhere):
    """AdamW moves by g / |g|, so by rounding alone where g is next to nothing: a weight in a thousand may differ."""
    pairs = [(elsewhere.parameters[name], weight) for name, weight in here.parameters.items()]
    apart = torch.cat([(one - other).detach().abs().flatten() for one, other in pairs]).sort().values
    assert apart[int(0.999 * len(apart))] < 1e-6
    assert apart[-1] < 0.02 * STEPS.learning_rate


def policy(lm=None, **options):
    return Policy("main", brief(kuhn_pocket()) if lm is None else lm, weight_decay=0.0, magnet=False, **options)


@pytest.fixture
def trainer(tmp_path):
    return TorchTrainer(policy(), tmp_path, max_tokens=300)


@pytest.mark.parametrize(
    "name", [name if name == "ppo" else pytest.param(name, marks=pytest.mark.thorough) for name in OBJECTIVES]
)
@pytest.mark.parametrize(
    "max_tokens", [pytest.param(8192, id="whole"), pytest.param(200, id="cut", marks=pytest.mark.thorough)]
)
def test_a_loss_has_the_same_gradient_through_the_waist(trainer, name, max_tokens):
    lm = brief(kuhn_pocket())
    loss, expected = gradient(lm, losses_of(lm, name, max_tokens=max_tokens).losses(0, MetricSums()))
    assert float(expected.norm()) > 1e-2
    assert through(Waist(trainer), name) == pytest.approx(loss, rel=1e-5)
    found = gradient_of(trainer.policy.lm)
    assert float((found - expected).norm()) <= 1e-6 * float(expected.norm())


@pytest.mark.thorough
def test_several_updates_end_in_the_same_weights(trainer):
    objective = Objective(Surrogate("ppo"), {}, **(KL | {"magnet": 0.0, "kl_reference": 0.0}))
    here, elsewhere = policy(), policy(trainer=trainer)
    elsewhere.begin()
    for _ in range(4):
        told = [update(one, batch_of("ppo"), objective, STEPS) for one in (here, elsewhere)]
        assert told[1]["grad_norm"] == pytest.approx(told[0]["grad_norm"], rel=1e-4)
        assert told[1]["gap"] == pytest.approx(told[0]["gap"], abs=1e-5)
        assert told[1]["kl_old"] == pytest.approx(told[0]["kl_old"], rel=1e-3, abs=1e-7)
    assert_the_same_weights(here, elsewhere)
    assert elsewhere.updates == 4
    assert not elsewhere.optimizer.state, "it learns elsewhere"


@pytest.mark.thorough
def test_minibatches_pass_too(trainer):
    objective, steps = Objective(Surrogate("ppo"), {}), STEPS._replace(minibatch=3, inner_steps=3)
    here, elsewhere = policy(), policy(trainer=trainer)
    elsewhere.begin()
    for one in (here, elsewhere):
        update(one, batch_of("ppo"), objective, steps)
    assert_the_same_weights(here, elsewhere)


def test_a_batch_that_is_left_out_leaves_nothing_at_the_trainer(trainer):
    elsewhere = policy(trainer=trainer)
    elsewhere.begin()
    before = trainer.export()
    steps = STEPS._replace(drops=True, max_gap=1e-12)
    assert update(elsewhere, batch_of("ppo"), Objective(Surrogate("ppo"), {}), steps)["dropped"] == 1.0
    with pytest.raises(LearningError, match="differ from the learner's"):
        update(elsewhere, batch_of("ppo"), Objective(Surrogate("ppo"), {}), STEPS._replace(max_gap=1e-12))
    assert all(weight.grad is None for weight in trainer.policy.parameters.values())
    assert all(torch.equal(before[name], weight) for name, weight in trainer.export().items())


def test_slopes_that_are_not_finite_are_told_before_they_are_sent(trainer):
    one = policy(trainer=trainer)
    replies = [AskedReply((1, 2), (3, 4)), AskedReply((1,), (5,))]
    one.waist.keep(replies, torch.tensor([[1.0, 2.0], [3.0, math.inf]]))  # behind the second reply's last token
    assert one.clip_gradients(1.0) == 0.0
    one.waist.keep(replies, torch.tensor([[1.0, math.inf], [3.0, 0.0]]))
    assert math.isnan(one.clip_gradients(1.0))
    one.clear_gradients()
    assert one.clip_gradients(1.0) == 0.0


def test_a_loss_that_is_not_finite_is_not_sent(trainer):
    elsewhere = policy(trainer=trainer)
    elsewhere.begin()
    batch = batch_of("ppo")
    spoilt = batch._replace(free=(batch.free[0]._replace(gain=math.nan), *batch.free[1:]))
    with pytest.raises(LearningError, match="the loss is nan"):
        update(elsewhere, spoilt, Objective(Surrogate("reinforce"), {}), STEPS)
    assert all(weight.grad is None for weight in trainer.policy.parameters.values())


@pytest.mark.thorough
def test_a_checkpoint_goes_on_where_it_was(trainer, tmp_path):
    objective = Objective(Surrogate("ppo"), {})
    one = policy(trainer=trainer)
    one.begin()
    update(one, batch_of("ppo"), objective, STEPS)
    one.save(tmp_path / "main.safetensors")
    update(one, batch_of("ppo"), objective, STEPS)
    expected = {name: weight.clone() for name, weight in one.parameters.items()}

    again = policy(trainer=TorchTrainer(policy(), tmp_path / "other", max_tokens=300))
    again.restore(tmp_path / "main.safetensors")
    update(again, batch_of("ppo"), objective, STEPS)
    assert all(torch.equal(expected[name], weight) for name, weight in again.parameters.items())

    here = policy()
    here.save(tmp_path / "here.safetensors")
    with pytest.raises(UsageError, match=r"does not say where the trainer of policy 'main' keeps its state"):
        again.restore(tmp_path / "here.safetensors")


def test_a_checkpoint_and_its_trainers_state_that_differ_are_refused(trainer, tmp_path):
    one = policy(trainer=trainer)
    one.begin()
    one.save(tmp_path / "main.safetensors")
    with torch.no_grad():
        next(iter(trainer.policy.parameters.values())).add_(1.0)
    trainer.save("main-000000")
    with pytest.raises(UsageError, match=r"has other weights of policy 'main' than the state"):
        policy(trainer=trainer).restore(tmp_path / "main.safetensors")


def test_another_base_is_refused(tmp_path):
    one = policy(trainer=TorchTrainer(policy(kuhn_pocket(hidden_size=16)), tmp_path))
    with pytest.raises(UsageError, match=r"has shape .* for .*, where the run's model has shape .* another base"):
        one.begin()
    one = policy(trainer=TorchTrainer(policy(kuhn_pocket(layers=3)), tmp_path))
    with pytest.raises(UsageError, match=r"weights that the run's model lacks, such as .*layers\.2.* another base"):
        one.begin()


def losses(batch, objective, trainer):
    return BatchLoss(kuhn_pocket(), None, batch, objective, max_tokens=8192, waist=Waist(trainer))


def test_what_needs_more_than_log_probs_is_refused_by_name(trainer):
    chosen = batch_of_updates(self_play(kuhn_pocket(), 4, {}))
    with pytest.raises(UsageError, match=r"kuhn_poker has replies by choice.*roles\.reply = 'free'"):
        losses(chosen, Objective(Surrogate("ppo"), {}), trainer)
    free = batch_of("ppo")
    with pytest.raises(UsageError, match=r"objective\.entropy needs the entropy of whole distributions"):
        losses(free, Objective(Surrogate("ppo"), {"kuhn_poker": 0.1}), trainer)
    with pytest.raises(UsageError, match=r"objective\.epo needs the entropy"):
        losses(free, Objective(Surrogate("ppo"), {}, band=EntropyBand(0.1)), trainer)
    warm = free._replace(free=tuple(row._replace(temperature=0.5) for row in free.free))
    with pytest.raises(UsageError, match=r"temperature 0\.5, but .*roles\.temperature = 1\.0"):
        next(losses(warm, Objective(Surrogate("ppo"), {}), trainer).losses(0, MetricSums()))
    cut = free._replace(free=tuple(row._replace(truncation=row.truncation._replace(top_k=5)) for row in free.free))
    with pytest.raises(UsageError, match=r"sampled with top_k, top_p or min_p, but"):
        next(losses(cut, Objective(Surrogate("ppo"), {}), trainer).losses(0, MetricSums()))
    one = policy(trainer=trainer)
    with pytest.raises(UsageError, match=r"takes weights other than those it learned"):
        one.reset(dict(one.parameters))
    with pytest.raises(UsageError, match=r"takes the weights of another policy"):
        one.copy_from(policy())
    with pytest.raises(UsageError, match=r"does not read the log-probs of free replies"):
        one.check_reached(torch.zeros(()))
