"""Gradient checkpointing (Chen et al., arXiv 1604.06174): a layer keeps its input and is computed again backward.

It is ``transformers``' own, which is in force only while layers are in training mode, and only where a model caches
nothing. Models here stay in evaluation mode, so that no dropout comes between sampler and learner; the layers alone
are told otherwise, and only for the learner's passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from games.errors import UsageError


def enable_checkpointing(model: Any) -> None:
    """Let the passes within ``checkpointed`` keep only what goes into each layer.

    Raises UsageError for a model that cannot.
    """
    if not model.supports_gradient_checkpointing:
        raise UsageError(
            f"{type(model).__name__} does not support gradient checkpointing. Set learner.checkpointing = false."
        )
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)  # its older name
    enable({"use_reentrant": False, "preserve_rng_state": False})


@contextmanager
def checkpointed(model: Any) -> Iterator[None]:
    """Checkpoint the passes made meanwhile, if gradients are wanted and ``enable_checkpointing`` was called."""
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    for layer in layers:
        layer.training = torch.is_grad_enabled() and layer.gradient_checkpointing
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
