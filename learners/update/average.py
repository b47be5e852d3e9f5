"""The running mean of a policy's weights over its updates: a separate policy, which plays no training match.

In self-play a policy circles around its limit, and its noise does not fall while it learns; the mean of its weights
over the last updates lies nearer to the limit (Polyak and Juditsky 1992, "Acceleration of stochastic approximation by
averaging"). For the logits of a table it is the geometric mean of the policies. After its t-th update

    mean <- d mean + (1 - d) weights,   d = min(decay, t / (t + 1))

so it is the plain mean of all weights so far until it spans 1 / (1 - decay) updates, and then of about that many.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from arena.lm.language_model import LanguageModel


class WeightAverage:
    """Single-precision means of weights by name, since weights of lower precision would round the steps away."""

    def __init__(self, weights: Mapping[str, Tensor], decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.means = {name: weight.detach().float().clone() for name, weight in weights.items()}

    @torch.no_grad()
    def fold(self, weights: Mapping[str, Tensor]) -> None:
        """Fold in the weights after an update."""
        decay = min(self.decay, self.updates / (self.updates + 1))
        self.updates += 1
        for name, mean in self.means.items():
            mean.lerp_(weights[name].detach().float(), 1 - decay)

    @torch.no_grad()
    def reset(self, weights: Mapping[str, Tensor]) -> None:
        """Start again from these weights."""
        self.updates = 0
        for name, mean in self.means.items():
            mean.copy_(weights[name])

    @torch.no_grad()
    def model(self, like: LanguageModel) -> LanguageModel:
        """Return a frozen model with the mean weights, which the caller releases; ``like`` is the averaged model."""
        averaged = like.frozen_copy()
        for name, weight in averaged.parameters().items():
            weight.copy_(self.means[name])
        return averaged
