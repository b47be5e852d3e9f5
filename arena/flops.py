"""Model FLOPs: the work of forward and backward passes, and the speed of a plain matrix product on the same device.

Counted are the products with weights and those of attention, as in the MFU of PaLM (Chowdhery et al., arXiv 2204.02311,
appendix B): of tokens that are read, without padding. Backward a trained weight costs twice its forward pass, a frozen
one once, for the gradient of its input (the lowest layer's needs none, but is counted). What activation checkpointing
computes again does not count.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import torch

SIZES = (256, 1024, 4096, 8192)  # of the measured products: the first that takes long enough to be measured
MIN_SECONDS = 0.005
REPEATS = 5


class Counter:
    """The FLOPs of this process's passes so far."""

    def __init__(self) -> None:
        self.total = 0.0


COUNTED = Counter()


class PassCost(NamedTuple):
    """What one token costs in a model's forward pass, in multiplications with a weight."""

    frozen: int  # weights of the layers, without embeddings and output head
    trained: int
    head: int  # weights of the output head
    head_trained: bool
    attention: int  # multiplications for each token that is attended to

    @classmethod
    def of(cls, model: Any, own: Mapping[str, torch.nn.Parameter]) -> PassCost:
        """Return the cost of a view on a model, whose own parameters are the whole model's or an adapter's."""
        config, head = model.config.get_text_config(), model.get_output_embeddings().weight
        skipped = {id(head), id(model.get_input_embeddings().weight)}
        adapters = {id(p) for name, p in model.named_parameters() if ".lora_" in name}
        weights = [p for p in model.parameters() if id(p) not in skipped | adapters]
        if all(id(p) in adapters for p in own.values()):
            weights += own.values()
        products = [p for p in weights if p.dim() == 2]
        trained = sum(p.numel() for p in products if p.requires_grad)
        heads = getattr(config, "num_attention_heads", 0)  # a model may have no attention
        width = getattr(config, "head_dim", None) or config.hidden_size // max(heads, 1)
        attention = 2 * config.num_hidden_layers * heads * width
        frozen = sum(p.numel() for p in products) - trained
        return cls(frozen, trained, head.numel(), bool(head.requires_grad), attention)

    def add(self, tokens: int, attended: float, scored: int) -> None:
        """Count a pass over this many tokens, which attend to this many all together, and whose logits are
        ``scored``.
        """
        forward = (self.frozen + self.trained) * tokens + self.head * scored + self.attention * attended
        backward = 0.0
        if torch.is_grad_enabled() and (self.trained or self.head_trained):
            backward = forward + self.trained * tokens + self.head * scored * self.head_trained
            backward += self.attention * attended  # both of its products have two inputs
        COUNTED.total += 2.0 * (forward + backward)


@cache
def peak_rate(device: str, dtype: str, threads: int) -> float:
    """Return the FLOP/s of a plain product of square matrices, the best of some; ``threads`` are those of torch now."""
    del threads  # of which the rate depends
    seconds, size = 0.0, 0
    for size in SIZES:
        left, right = (torch.ones(size, size, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
        _seconds(left, right)  # warms up
        seconds = _seconds(left, right)
        if seconds > MIN_SECONDS:
            break
    best = min([seconds, *(_seconds(left, right) for _ in range(REPEATS if seconds < 1.0 else 0))])
    return 2.0 * size**3 / best


@torch.inference_mode()
def _seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    start = time.perf_counter()
    left @ right
    if left.device.type == "cuda":
        torch.cuda.synchronize(left.device)
    return time.perf_counter() - start
