"""Divergences D(π, q) of a policy π from a teacher q, which ``teacher.divergence`` chooses by name.

    reverse         KL(π | q) = Σ_a π(a) log(π(a) / q(a)): mode-seeking
    forward         KL(q | π) = Σ_a q(a) log(q(a) / π(a)): mode-covering
    jensen_shannon  ½ KL(π | m) + ½ KL(q | m), m = (π + q) / 2: between the two, at most log 2

For a free reply only the sampled tokens are known: with r = q / π and D = E_π[f(r)], the gradient is
E_π[(f(r) - r f'(r)) ∇ log π], of which each token is an unbiased sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from games.common.registry import Entry, Registry

if TYPE_CHECKING:
    from torch import Tensor

Exact = Callable[["Tensor", "Tensor"], "Tensor"]  # from log π and log q of all replies  # [N, A] x 2 -> [N]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence(Entry[Exact]):
    """A divergence D(π, q) = E_π[f(q / π)]; ``make`` is exact."""

    # f(r) - r f'(r) from log r, up to a constant, which has no mean gradient  # [N, T] -> [N, T]
    coefficient: Callable[[Tensor], Tensor]


def _kl(logprobs: Tensor, other: Tensor) -> Tensor:
    """Return KL(p | q) of log-probs.  # [N, A] x 2 -> [N]"""
    return (logprobs.exp() * (logprobs - other)).sum(-1)


def _forward(logprobs: Tensor, teacher: Tensor) -> Tensor:
    """Return KL(q | π).  # [N, A] x 2 -> [N]"""
    return _kl(teacher, logprobs)


def jensen_shannon(logprobs: Tensor, teacher: Tensor) -> Tensor:
    """Return ½ KL(π | m) + ½ KL(q | m), m = (π + q) / 2.  # [N, A] x 2 -> [N]"""
    import torch

    middle = torch.logaddexp(logprobs, teacher) - math.log(2)
    return 0.5 * (_kl(logprobs, middle) + _kl(teacher, middle))


def _middle_coefficient(log_ratio: Tensor) -> Tensor:
    from torch.nn.functional import softplus

    return 0.5 * (math.log(2) - softplus(log_ratio))


def sampled_divergence(divergence: Divergence, logprobs: Tensor, teacher: Tensor, old: Tensor) -> Tensor:
    """Return, for each sampled token, a term with an unbiased gradient of the divergence; tensors have one shape.

    Its value is meaningless: read KL(π | q) from ``log π - log q``. Tokens were drawn from ``old``, so a sample has the
    weight π / π_old.
    """
    coefficient = divergence.coefficient((teacher - logprobs).detach())
    return (logprobs - old).exp() * coefficient


DIVERGENCES = Registry(
    "divergences",
    "divergence from a teacher",
    Divergence,
    "teacher.divergence",
    {
        "reverse": Divergence(_kl, description="KL(policy | teacher)", coefficient=lambda log_ratio: -log_ratio),
        "forward": Divergence(_forward, description="KL(teacher | policy)", coefficient=lambda r: -r.exp()),
        "jensen_shannon": Divergence(
            jensen_shannon, description="between the two, at most log 2", coefficient=_middle_coefficient
        ),
    },
)
