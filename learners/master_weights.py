"""Single-precision weights behind a model of lower precision (Micikevicius et al., arXiv 1710.03740).

bfloat16 has 8 bits of precision: a step smaller than about 1/256 of a weight is lost in rounding, and so is what a
late chunk adds to a gradient. So the optimiser moves weights in single precision, gradients are summed in single
precision, and the model gets the weights rounded. The alternative, single-precision weights under autocast, takes as
much memory, but rounds all weights again in every pass, in play as in learning.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle


class MasterWeights:
    """What an optimiser moves: a model's own weights where they are single precision, copies of them elsewhere."""

    def __init__(self, weights: Mapping[str, Parameter]) -> None:
        self.parameters: dict[str, Parameter] = {}
        self._hooks: list[RemovableHandle] = []
        self._rounded: list[tuple[Parameter, Parameter]] = []  # (the model's, ours)
        for name, weight in weights.items():
            if weight.dtype == torch.float32:
                self.parameters[name] = weight
                continue
            ours = Parameter(weight.detach().float())
            self._hooks.append(weight.register_post_accumulate_grad_hook(partial(_hand_over, ours)))
            self._rounded.append((weight, ours))
            self.parameters[name] = ours

    @torch.no_grad()
    def publish(self) -> None:
        """Let the model have the weights as they are now, rounded."""
        for weight, ours in self._rounded:
            weight.copy_(ours)

    def let_go(self) -> None:
        """Take no more gradients: others hold the model's weights from now on."""
        for hook in self._hooks:
            hook.remove()


def _hand_over(ours: Parameter, weight: Tensor) -> None:
    """Add the gradient of the model's weight to ours, as soon as it is there."""
    if weight.grad is not None:
        gradient = weight.grad.float()
        ours.grad = gradient if ours.grad is None else ours.grad.add_(gradient)
        weight.grad = None
