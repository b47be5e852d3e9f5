"""KTO and multi-turn DPO in numbers: worked by hand, by TRL's formula, and by the papers' discounts."""

import math

import pytest
import torch
from torch.nn import functional

from learners.losses.dmpo import turn_discounts
from learners.losses.kto import Settings, kto_loss


def test_kto_worked_by_hand():
    """Beta is 0.5, z0 is 1: gains of -1, 3 and 1 nats; 1 - sigmoid(beta gain)."""
    surrogate = Settings(dpo_beta=0.5)
    scores = torch.tensor([0.0, 4.0, 0.0], requires_grad=True)
    loss = kto_loss(scores, torch.ones(3), torch.tensor([True, True, False]), surrogate)
    half, third = 1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(1.5))
    assert loss.tolist() == pytest.approx([half, third, 1 - half])
    loss.sum().backward()
    slopes = [-0.5 * half * (1 - half), -0.5 * third * (1 - third), 0.5 * half * (1 - half)]
    assert scores.grad.tolist() == pytest.approx(slopes)


def test_kto_is_trls_formula():
    """TRL's ``KTOTrainer.kto_loss`` (loss type kto): chosen and rejected log-ratios apart, one KL, weights of 1."""
    generator = torch.Generator().manual_seed(0)
    scores, kl = torch.randn(20, generator=generator), torch.tensor(0.4)
    desirable = torch.rand(20, generator=generator) > 0.4
    surrogate = Settings(dpo_beta=0.1)
    chosen = 1 - functional.sigmoid(0.1 * (scores[desirable] - kl))
    rejected = 1 - functional.sigmoid(0.1 * (kl - scores[~desirable]))
    expected = torch.cat([chosen, rejected]).mean()
    torch.testing.assert_close(kto_loss(scores, kl.expand(20), desirable, surrogate).mean(), expected)


def test_good_and_bad_are_mirror_images():
    """At one weight what is above the reference point is as good for one as it is bad for the other; both sum to 1."""
    scores, points = torch.linspace(-3, 3, 7), torch.full((7,), 0.5)
    good = kto_loss(scores, points, torch.ones(7, dtype=torch.bool), Settings())
    bad = kto_loss(scores, points, torch.zeros(7, dtype=torch.bool), Settings())
    torch.testing.assert_close(good + bad, torch.ones(7))
    mirrored = kto_loss(2 * points - scores, points, torch.zeros(7, dtype=torch.bool), Settings())
    torch.testing.assert_close(good, mirrored)


def test_discounts_worked_by_hand():
    """Gamma 1/2, three turns: 1, (1/2 + 1/4) / (7/4), (1/4) / (7/4); the paper's g^t (1 - g^(T - t)) / (1 - g^T)."""
    assert turn_discounts(3, 0.5) == pytest.approx([1.0, 3 / 7, 1 / 7])
    assert turn_discounts(4, 1.0) == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert turn_discounts(3, 1e-9) == pytest.approx([1.0, 0.0, 0.0], abs=1e-8)
    assert turn_discounts(1, 0.3) == [1.0]
    paper = [0.8**t * (1 - 0.8 ** (5 - t)) / (1 - 0.8**5) for t in range(5)]
    assert turn_discounts(5, 0.8) == pytest.approx(paper)
