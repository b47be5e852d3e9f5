"""Objectives as pure functions of log-probs. All log-probs and divergences are in nats.

The policy-gradient part takes sums of positive advantages (``gains``) and of negative ones
(``losses``) for each reply or token, as batching merged them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Surrogate(NamedTuple):
    """Which surrogate, and its clips: 1 - clip_low <= ratio <= 1 + clip_high, ratio <= dual_clip."""

    name: str = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None


def surrogate_loss(logprobs: Tensor, old: Tensor, gains: Tensor, losses: Tensor, surrogate: Surrogate) -> Tensor:
    """Return the policy-gradient loss, element by element; tensors have one shape.

    reinforce: -log pi A.   ppo (Schulman et al. 2017): -min(rho A, clip(rho) A), rho = pi / pi_old,
    which for A > 0 is -A min(rho, 1 + clip_high) and for A < 0 is -A max(rho, 1 - clip_low). The
    dual clip (Ye et al. 2020) bounds the ratio of A < 0 by c = ``dual_clip`` too.
    """
    if surrogate.name == "reinforce":
        return -logprobs * (gains + losses)
    ratio = (logprobs - old).exp()
    for_losses = ratio.clamp(min=1 - surrogate.clip_low)
    if surrogate.dual_clip is not None:
        for_losses = for_losses.clamp(max=surrogate.dual_clip)
    return -(gains * ratio.clamp(max=1 + surrogate.clip_high) + losses * for_losses)


def entropy(logprobs: Tensor) -> Tensor:
    """Return the exact entropy of each distribution.  # [..., A] -> [...]"""
    return -(logprobs.exp() * logprobs).sum(-1)


def kl(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the exact KL(pi | reference) of each distribution.  # [..., A] -> [...]"""
    return (logprobs.exp() * (logprobs - reference)).sum(-1)


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return Schulman's k2 estimate of KL(pi | reference) from samples of pi: (log pi - log reference)^2 / 2.

    k2 and not k3 as a loss term: for samples of pi, the mean gradient of k2 is that of
    KL(pi | reference), while k3's is that of KL(reference | pi).
    """
    return 0.5 * (logprobs - reference).square()


def mix_uniform(logprobs: Tensor, absent: Tensor, share: float) -> Tensor:
    """Return log((1 - share) pi + share / A) over each row's A replies; ``absent`` marks the padding."""
    if share == 0.0:
        return logprobs
    replies = (~absent).sum(-1, keepdim=True)
    mixed = (1 - share) * logprobs.exp() + share / replies
    return torch.where(absent, logprobs, mixed.clamp(min=1e-30).log())
