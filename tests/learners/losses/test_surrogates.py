"""Objectives against values worked by hand, and their gradients against finite differences."""

import math

import pytest
import torch

from learners.losses.distributions import entropy, kl, mix_uniform, outside_band
from learners.losses.kl_estimators import ESTIMATORS, k1, k2, k3
from learners.losses.objective import Surrogate
from learners.losses.policy_gradient import ppo, reinforce, reply_means

PPO = Surrogate()
ASYMMETRIC = Surrogate("ppo", {"clip_low": 0.1, "clip_high": 0.3})
DUAL = Surrogate("ppo", {"dual_clip": 3.0})
REINFORCE = Surrogate("reinforce")


def surrogate_loss(logprobs, old, gains, losses, surrogate):
    function = reinforce if surrogate is REINFORCE else ppo
    return function(logprobs, old, gains, losses, surrogate.table)


def loss(surrogate, ratio, advantage):
    """Return the loss of one reply with this probability ratio and advantage."""
    old = torch.tensor([-1.0], dtype=torch.float64)
    gain, less = torch.tensor([max(advantage, 0.0)]), torch.tensor([min(advantage, 0.0)])
    return float(surrogate_loss(old + math.log(ratio), old, gain, less, surrogate))


@pytest.mark.parametrize(
    ("surrogate", "ratio", "advantage", "expected"),
    [
        (PPO, 1.0, 2.0, -2.0),
        (PPO, 1.1, 2.0, -2.2),
        (PPO, 1.5, 2.0, -2.4),  # min(1.5 * 2, 1.2 * 2)
        (PPO, 0.5, 2.0, -1.0),  # the clip never helps a good action that became unlikely
        (PPO, 1.5, -2.0, 3.0),  # min(-3, -2.4)
        (PPO, 0.5, -2.0, 1.6),  # min(-1, -1.6)
        (ASYMMETRIC, 1.5, 2.0, -2.6),
        (ASYMMETRIC, 0.5, -2.0, 1.8),
        (DUAL, 5.0, -2.0, 6.0),  # max(min(-10, -2.4), -6)
        (DUAL, 2.0, -2.0, 4.0),
        (DUAL, 0.5, -2.0, 1.6),
        (DUAL, 5.0, 2.0, -2.4),
        (REINFORCE, math.e, 2.0, 0.0),  # log pi = -1 + 1
        (REINFORCE, 1.0, -2.0, -2.0),
    ],
)
def test_surrogates_worked_by_hand(surrogate, ratio, advantage, expected):
    assert loss(surrogate, ratio, advantage) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("surrogate", [PPO, ASYMMETRIC, DUAL, REINFORCE])
@pytest.mark.parametrize("ratio", [0.5, 0.95, 1.05, 1.25, 4.0])
def test_summed_advantages_of_one_reply_lose_nothing(surrogate, ratio):
    """Four draws of one reply, merged into a gain and a loss, cost what they cost one by one."""
    advantages = [1.0, -0.5, 0.25, -2.0]
    log_ratio = torch.tensor([math.log(ratio)], dtype=torch.float64)
    merged = surrogate_loss(log_ratio, log_ratio * 0, torch.tensor([1.25]), torch.tensor([-2.5]), surrogate)
    single = sum(
        surrogate_loss(log_ratio, log_ratio * 0, torch.tensor([max(a, 0.0)]), torch.tensor([min(a, 0.0)]), surrogate)
        for a in advantages
    )
    assert float(merged) == pytest.approx(float(single), abs=1e-12)


def logs(*probabilities):
    return torch.tensor([math.log(p) for p in probabilities], dtype=torch.float64)


def test_entropy_worked_by_hand():
    assert float(entropy(logs(0.5, 0.25, 0.25))) == pytest.approx(1.5 * math.log(2), abs=1e-12)
    assert float(entropy(logs(1.0))) == 0.0


def test_padding_adds_no_entropy_and_no_divergence():
    padded = torch.cat([logs(0.5, 0.5), torch.tensor([-1e9], dtype=torch.float64)])
    assert float(entropy(padded)) == pytest.approx(math.log(2), abs=1e-12)
    assert float(kl(padded, padded)) == 0.0


def test_kl_worked_by_hand():
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert float(kl(logs(0.75, 0.25), logs(0.5, 0.5))) == pytest.approx(expected, abs=1e-12)
    assert float(kl(logs(0.5, 0.5), logs(0.5, 0.5))) == 0.0


def test_k2_worked_by_hand():
    assert float(k2(logs(0.5), logs(0.25))) == pytest.approx(math.log(2) ** 2 / 2, abs=1e-12)
    assert float(k2(logs(0.5), logs(0.5))) == 0.0


def test_k1_and_k3_worked_by_hand():
    assert float(k1(logs(0.5), logs(0.25))) == pytest.approx(math.log(2), abs=1e-12)
    assert float(k3(logs(0.5), logs(0.25))) == pytest.approx(0.5 - 1 + math.log(2), abs=1e-12)
    assert float(k3(logs(0.25), logs(0.5))) == pytest.approx(2 - 1 - math.log(2), abs=1e-12)


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_k1_and_k3_are_on_average_the_divergence(name):
    policy, reference = logs(0.2, 0.7, 0.1), logs(0.3, 0.3, 0.4)
    mean = (policy.exp() * ESTIMATORS[name].make(policy, reference)).sum()
    assert float(mean) == pytest.approx(float(kl(policy, reference)), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "estimated"),
    [
        ("k1", lambda policy, reference: 0.0 * kl(policy, reference)),
        ("k2", kl),
        ("k3", lambda policy, reference: kl(reference, policy)),
    ],
)
def test_what_an_estimators_gradient_is_on_average(name, estimated):
    """E_pi[grad k1] = 0, E_pi[grad k2] = grad KL(pi | reference), E_pi[grad k3] = grad KL(reference | pi)."""
    logits = torch.tensor([0.2, -0.4, 0.9], dtype=torch.float64, requires_grad=True)
    reference = logs(0.3, 0.3, 0.4)
    policy = logits.log_softmax(-1)
    sampled = (policy.exp().detach() * ESTIMATORS[name].make(policy, reference)).sum()
    (mean,) = torch.autograd.grad(sampled, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(estimated(policy, reference), logits)
    torch.testing.assert_close(mean, exact, atol=1e-12, rtol=0)
    assert (float(exact.abs().max()) > 0.1) == (name != "k1")


def test_gspos_ratio_is_the_geometric_mean_over_the_replys_tokens():
    """Ratios 1.5 and 0.9 make sqrt(1.35) = 1.1619 at both tokens; what lies behind the reply is not of it."""
    old = torch.tensor([[-1.0, -2.0, -5.0], [-1.0, -1.0, -1.0]], dtype=torch.float64)
    ratios = torch.tensor([[1.5, 0.9, 77.0], [2.0, 4.0, 1.0]], dtype=torch.float64)
    real = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    logprobs, sequence_old = reply_means(old + ratios.log(), real), reply_means(old, real)
    assert (logprobs - sequence_old).exp()[0, :2].tolist() == pytest.approx([1.161895, 1.161895], abs=1e-6)
    assert (logprobs - sequence_old).exp()[1].tolist() == pytest.approx([2.0] * 3, abs=1e-12)
    gains, none = torch.full((2, 3), 2.0, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    wide, tight = Surrogate("gspo", {"clip_high": 0.5}), Surrogate("gspo", {"clip_high": 0.1})
    assert float(surrogate_loss(logprobs, sequence_old, gains, none, wide)[0, 0]) == pytest.approx(-2.32379, abs=1e-5)
    assert float(surrogate_loss(logprobs, sequence_old, gains, none, tight)[0, 0]) == pytest.approx(-2.2, abs=1e-12)


def test_the_band_costs_what_lies_outside_it():
    values = torch.tensor([0.5, 0.9, 1.0, 1.5])
    none = torch.full((4,), float("inf"))
    assert outside_band(values, torch.full((4,), 0.8), torch.full((4,), 1.2)).tolist() == pytest.approx(
        [0.3, 0.0, 0.0, 0.3]
    )
    assert outside_band(values, -none, none).tolist() == [0.0] * 4


def test_mixing_with_the_uniform_policy_worked_by_hand():
    masked = -1e9
    logprobs = torch.tensor([[math.log(0.8), math.log(0.2), masked], [0.0, masked, masked]], dtype=torch.float64)
    absent = torch.tensor([[False, False, True], [False, True, True]])
    mixed = mix_uniform(logprobs, absent, 0.5)
    assert mixed[0, :2].exp().tolist() == pytest.approx([0.65, 0.35], abs=1e-12)
    assert mixed[1, :1].exp().tolist() == pytest.approx([1.0], abs=1e-12)
    assert mixed[absent].tolist() == [masked] * 3
    assert mix_uniform(logprobs, absent, 0.0) is logprobs


def test_mixing_keeps_what_the_policy_has_ruled_out_possible():
    certain = torch.tensor([[0.0, -200.0]], dtype=torch.float64)
    mixed = mix_uniform(certain, torch.zeros(1, 2, dtype=torch.bool), 0.1)
    assert mixed.exp()[0].tolist() == pytest.approx([0.95, 0.05], abs=1e-6)


LOGITS = torch.tensor([[0.3, -0.7, 0.1], [1.2, 0.4, -0.5]], dtype=torch.float64)
OLD = torch.tensor([[0.1, -0.2, 0.3], [0.9, 0.8, -1.5]], dtype=torch.float64).log_softmax(-1)
GAINS = torch.tensor([[1.0, 0.0, 2.0], [0.5, 0.3, 0.0]], dtype=torch.float64)
LOSSES = torch.tensor([[0.0, -1.0, -0.5], [-2.0, 0.0, -0.1]], dtype=torch.float64)
NONE_ABSENT = torch.zeros(2, 3, dtype=torch.bool)

REAL = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
SHARES = (OLD - OLD.flip(1)).exp().clamp(max=1.1)
LOW = torch.tensor([1.2, 0.3], dtype=torch.float64)  # the first row's entropy is below, the second's above

OBJECTIVES = {
    "ppo": lambda p: surrogate_loss(p, OLD, GAINS, LOSSES, PPO),
    "ppo, asymmetric": lambda p: surrogate_loss(p, OLD, GAINS, LOSSES, ASYMMETRIC),
    "ppo, dual clip": lambda p: surrogate_loss(p, OLD, GAINS, LOSSES, Surrogate("ppo", {"dual_clip": 1.5})),
    "reinforce": lambda p: surrogate_loss(p, OLD, GAINS, LOSSES, REINFORCE),
    "entropy": entropy,
    "kl": lambda p: kl(p, OLD),
    "gspo": lambda p: surrogate_loss(reply_means(p, REAL), reply_means(OLD, REAL), GAINS, LOSSES, PPO),
    "importance": lambda p: surrogate_loss(p, OLD, GAINS * SHARES, LOSSES * SHARES, PPO),
    "k1": lambda p: k1(p, OLD),
    "k2": lambda p: k2(p, OLD),
    "k3": lambda p: k3(p, OLD),
    "band": lambda p: outside_band(entropy(p), LOW, LOW + 0.01),
    "mixed": lambda p: mix_uniform(p, NONE_ABSENT, 0.2),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_equal_finite_differences(name):
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: OBJECTIVES[name](x.log_softmax(-1)), logits, eps=1e-6, atol=1e-6)
    (gradient,) = torch.autograd.grad(OBJECTIVES[name](logits.log_softmax(-1)).sum(), logits)
    if name != "mixed":
        assert float(gradient.abs().max()) > 1e-3, "the check is not of a constant"


def test_a_clipped_ratio_has_no_gradient():
    old = torch.zeros(2, dtype=torch.float64)
    logprobs = torch.tensor([math.log(1.5), math.log(0.5)], dtype=torch.float64, requires_grad=True)
    gains, losses = torch.tensor([1.0, 0.0]), torch.tensor([0.0, -1.0])
    surrogate_loss(logprobs, old, gains, losses, PPO).sum().backward()
    assert logprobs.grad.tolist() == [0.0, 0.0]
