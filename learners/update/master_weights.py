"""Single-precision weights behind a model of lower precision (Micikevicius et al., arXiv 1710.03740).

bfloat16 has 8 bits of precision: a step smaller than about 1/256 of a weight is lost in rounding, and so are small
contributions to a gradient. So the optimiser updates single-precision weights, gradients are summed in single
precision, and the model gets the rounded weights. The alternative, single-precision weights under autocast, takes as
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
    """The weights that an optimiser updates: a model's weights if they are single precision, else copies that are."""

    def __init__(self, weights: Mapping[str, Parameter]) -> None:
        self.parameters: dict[str, Parameter] = {}
        self._hooks: list[RemovableHandle] = []
        self._rounded: list[tuple[Parameter, Parameter]] = []  # (the model's, the master)
        for name, weight in weights.items():
            if weight.dtype == torch.float32:
                self.parameters[name] = weight
                continue
            master = Parameter(weight.detach().float())
            self._hooks.append(weight.register_post_accumulate_grad_hook(partial(_accumulate, master)))
            self._rounded.append((weight, master))
            self.parameters[name] = master

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Copy the weights to the model, rounded to its precision."""
        for weight, master in self._rounded:
            weight.copy_(master)

    def remove_hooks(self) -> None:
        """Stop collecting the model's gradients, so that another instance can hold its weights."""
        for hook in self._hooks:
            hook.remove()


def _accumulate(master: Parameter, weight: Tensor) -> None:
    """Add the gradient of a model's weight to its master's, and free it."""
    if weight.grad is not None:
        gradient = weight.grad.float()
        master.grad = gradient if master.grad is None else master.grad.add_(gradient)
        weight.grad = None
