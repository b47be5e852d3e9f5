"""On-policy distillation: how far the student is from what a teacher says to the student's own replies.

Generalised knowledge distillation (Agarwal et al., arXiv 2306.13649; MiniLLM, arXiv 2306.08543): at the turns that the
student itself came to, D(π, q) of its policy π and the teacher's q is made small. D is one of

    reverse         KL(π | q) = Σ_a π(a) log(π(a) / q(a)): seeks one of the teacher's ways, and leaves the others
    forward         KL(q | π) = Σ_a q(a) log(q(a) / π(a)): covers all of them
    jensen_shannon  ½ KL(π | m) + ½ KL(q | m), m = (π + q) / 2: between the two, at most log 2

A ``choice`` has all its replies, so D is exact. Of a free reply the teacher has scored the tokens that were sampled:
with r = q / π and D = E_π[f(r)], the gradient is E_π[(f(r) - r f'(r)) ∇ log π], of which each token is an unbiased
sample. Tokens were drawn from π_old, so that sample has the weight π / π_old.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from arena.lm.logprobs import MASKED
from arena.lm.tensors import to_device
from learners.batching import ChoiceRow, FreeRow
from learners.losses.surrogates import kl
from learners.metric_sums import MetricSums

LEAST = 1e-30  # that a probability of a teacher is taken for: its logarithm is finite


class Divergence(NamedTuple):
    """A divergence D(π, q) = E_π[f(q / π)]."""

    exact: Callable[[Tensor, Tensor], Tensor]  # from log π and log q of all replies  # [N, A] x 2 -> [N]
    # f(r) - r f'(r) from log r, up to a constant, which has no mean gradient  # [N, T] -> [N, T]
    coefficient: Callable[[Tensor], Tensor]


def jensen_shannon(logprobs: Tensor, said: Tensor) -> Tensor:
    """Return ½ KL(π | m) + ½ KL(q | m), m = (π + q) / 2.  # [N, A] x 2 -> [N]"""
    middle = torch.logaddexp(logprobs, said) - math.log(2)
    return 0.5 * (kl(logprobs, middle) + kl(said, middle))


DIVERGENCES: dict[str, Divergence] = {
    "reverse": Divergence(kl, lambda log_ratio: -log_ratio),
    "forward": Divergence(lambda logprobs, said: kl(said, logprobs), lambda log_ratio: -log_ratio.exp()),
    "jensen_shannon": Divergence(jensen_shannon, lambda log_ratio: 0.5 * (math.log(2) - softplus(log_ratio))),
}


def sampled_divergence(divergence: Divergence, logprobs: Tensor, said: Tensor, old: Tensor) -> Tensor:
    """Return at each sampled token what has an unbiased gradient of the divergence; tensors have one shape.

    Its value says nothing: read KL(π | q) from ``log π - log q``.
    """
    coefficient = divergence.coefficient((said - logprobs).detach())
    return (logprobs - old).exp() * coefficient


class TaughtTensors:
    """The turns of a chunk that a teacher was asked about; those of one row to which it says the same are one of N."""

    def __init__(self, row: Tensor, said: Tensor, real: Tensor, weight: Tensor, of_role: dict[str, Tensor]) -> None:
        self.row = row  # [N]
        self.said = said  # the teacher's log-probs; MASKED behind a row's last reply, 0 behind its last token  # [N, W]
        self._real, self._weight = real, weight  # 1 at tokens  [N, T], and of each of them in the loss  [N]
        self._turns_of_role = of_role  # the turns of each, 0 for other roles  # [N]

    @classmethod
    def of_rows(cls, rows: Sequence[ChoiceRow | FreeRow], width: int, device: torch.device) -> TaughtTensors | None:
        """Return what teachers say to a chunk's rows; None where none was asked."""
        pairs = [(index, row, taught) for index, row in enumerate(rows) for taught in row.taught]
        if not pairs:
            return None
        said = [_logprobs(row, taught.said, width) for _, row, taught in pairs]
        real = [_real(row, width) for _, row, _ in pairs]
        roles = dict.fromkeys(taught.role for _, _, taught in pairs)
        return cls(
            to_device([index for index, _, _ in pairs], device, torch.long),
            to_device(said, device),
            to_device(real, device),
            to_device([taught.weight for _, _, taught in pairs], device),
            {
                role: to_device([taught.turns * (taught.role == role) for _, _, taught in pairs], device)
                for role in roles
            },
        )

    def loss(self, divergences: Tensor) -> Tensor:
        """Return the weighted sum of the tokens' divergences.  # [N, T] -> []"""
        return (self._weight * (divergences * self._real).sum(1)).sum()

    def report(self, divergences: Tensor, sums: MetricSums) -> None:
        """Add to ``sums`` the tokens' divergences [N, T] by role (``teacher_kl/``), and their number (``taught/``)."""
        by_turn, tokens = (divergences * self._real).sum(1), self._real.sum(1)
        for role, turns in self._turns_of_role.items():
            sums.add(f"teacher_kl/{role}", turns * by_turn)
            sums.add(f"taught/{role}", turns * tokens)


def _logprobs(row: ChoiceRow | FreeRow, said: Sequence[float], width: int) -> list[float]:
    """Return what a teacher says as log-probs, padded as the policy's are."""
    if isinstance(row, FreeRow):
        return [*said, *[0.0] * (width - len(said))]
    return [*(math.log(max(share, LEAST)) for share in said), *[MASKED] * (width - len(said))]


def _real(row: ChoiceRow | FreeRow, width: int) -> list[float]:
    """Return 1 at a row's tokens, of which a choice has one, and 0 at padding."""
    tokens = len(row.reply) if isinstance(row, FreeRow) else 1
    return [1.0] * tokens + [0.0] * (width - tokens if isinstance(row, FreeRow) else 0)
