"""Entropies, divergences and bounds as pure functions of log-probs, in nats."""

from __future__ import annotations

import torch
from torch import Tensor


def entropy(logprobs: Tensor) -> Tensor:
    """Return the exact entropy of each distribution.  # [..., A] -> [...]"""
    return -(logprobs.exp() * logprobs).sum(-1)


def kl(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the exact KL(pi | reference) of each distribution.  # [..., A] -> [...]"""
    return (logprobs.exp() * (logprobs - reference)).sum(-1)


def within(ratio: Tensor, low: float, high: float) -> Tensor:
    """Return 1 where a ratio is within bounds, else 0."""
    return ((ratio >= low) & (ratio <= high)).to(ratio.dtype)


def outside_band(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return how far each value lies outside its band: max(low - x, 0) + max(x - high, 0)."""
    return (low - values).clamp(min=0.0) + (values - high).clamp(min=0.0)


def mix_uniform(logprobs: Tensor, padding: Tensor, share: float) -> Tensor:
    """Return log((1 - share) pi + share / A) over each row's A replies; ``padding`` is True behind a row's replies."""
    if share == 0.0:
        return logprobs
    replies = (~padding).sum(-1, keepdim=True)
    mixed = (1 - share) * logprobs.exp() + share / replies
    return torch.where(padding, logprobs, mixed.clamp(min=1e-30).log())
