"""Gradient checkpointing (Chen et al., arXiv 1604.06174): a layer keeps its input and is recomputed backward.

This is ``transformers``' own implementation, which is active only while layers are in training mode and the model
caches nothing. Models here stay in evaluation mode, so that sampler and learner do not differ by dropout; only the
layers are put into training mode, for the learner's passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from games.common.errors import UsageError


def enable_checkpointing(model: Any) -> None:
    """Let passes within ``checkpointed`` keep only each layer's input.

    Raises UsageError for a model that does not support it.
    """
    if not model.supports_gradient_checkpointing:
        raise UsageError(
            f"{type(model).__name__} does not support gradient checkpointing. Set optimizer.checkpointing = false."
        )
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)  # its older name
    enable({"use_reentrant": False, "preserve_rng_state": False})


@contextmanager
def checkpointed(model: Any) -> Iterator[None]:
    """Checkpoint the passes within, if gradients are enabled and ``enable_checkpointing`` was called."""
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    for layer in layers:
        layer.training = torch.is_grad_enabled() and layer.gradient_checkpointing
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
