"""Log-probs and entropies of tokens, and their gradients, in one function that keeps no logits.

``arena.lm.logprobs.token_scores`` leaves the gradient to PyTorch, which keeps several tensors of a chunk's logits and
passes over them a dozen times. Here a chunk's logits z exist once, forward and again backward. With p = softmax(z) and
entropy H, d log p_t / dz_j = [j = t] - p_j and dH / dz_j = -p_j (log p_j + H), so all is known from log p, which is z
less its log-sum-exp. The gradient of the head's weights is summed in single precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module

from arena.lm.logprobs import ScoreOptions, Scores, tempered, truncate

MOST_LOGITS = 1 << 28  # at once, 1 GB in single precision


def fits(head: Module) -> bool:
    """Return whether a head is a plain product."""
    return type(head) is Linear and type(head.weight.data) is Tensor and head.bias is None


def fused_token_scores(
    head: Any, states: Tensor, targets: Tensor, options: ScoreOptions, most_logits: int = MOST_LOGITS
) -> Scores:
    """Score ``targets`` [M] by the states [M, H] that predict them, with at most this many logits at a time."""
    return Scores(*_Scores.apply(states, head.weight, targets, options, most_logits))  # type: ignore[no-untyped-call]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, states: Tensor, weight: Tensor, targets: Tensor, options: ScoreOptions, most: int
    ) -> tuple[Tensor, Tensor]:
        rows = max(most // len(weight), 1)
        logprobs, entropy = (torch.empty(len(states), device=states.device) for _ in range(2))
        for first in range(0, len(states), rows):
            part = slice(first, first + rows)
            distributions = _distributions(states[part], weight, targets[part], options)
            logprobs[part] = distributions.gather(1, targets[part, None])[:, 0]
            entropy[part] = -torch.linalg.vecdot(distributions.exp(), distributions)
        context.save_for_backward(states, weight, targets, entropy)
        context.options, context.rows = options, rows
        if not options.entropy_gradient:
            context.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, targets, entropy = context.saved_tensors
        of_logprobs, of_entropy = gradients
        of_states = torch.empty_like(states) if context.needs_input_grad[0] else None
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if context.needs_input_grad[1] else None
        for first in range(0, len(states), context.rows):
            part = slice(first, first + context.rows)
            distributions = _distributions(states[part], weight, targets[part], context.options)
            outer = -of_logprobs[part, None]
            if context.options.entropy_gradient:
                outer = outer - of_entropy[part, None] * (distributions + entropy[part, None])
            of_logits = distributions.exp_().mul_(outer)
            of_logits.scatter_add_(1, targets[part, None], of_logprobs[part, None])
            of_logits = of_logits.div_(context.options.temperature).to(states.dtype)
            if of_states is not None:
                of_states[part] = of_logits @ weight
            if of_weight is not None:
                of_weight += of_logits.T @ states[part]
        return of_states, None if of_weight is None else of_weight.to(weight.dtype), None, None, None


def _distributions(states: Tensor, weight: Tensor, targets: Tensor, options: ScoreOptions) -> Tensor:
    """Return log p.  # [m, V], single precision"""
    logits = tempered(states @ weight.T, options.temperature)
    return truncate(logits, options.truncation, targets).log_softmax(-1)
