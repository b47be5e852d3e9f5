"""AdamW (Loshchilov & Hutter, arXiv 1711.05101), its state in single precision or in 8 bits.

The 8-bit state is Dettmers et al.'s (arXiv 2110.02861), from bitsandbytes: both moments are quantised in blocks of 256
numbers, so a weight's state takes 2 bytes rather than 8. Tensors of under 4,096 numbers keep theirs in single
precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from games.common.errors import UsageError

OptimizerName = Literal["adamw", "adamw8bit"]
BETAS = (0.9, 0.99)
FUSED = frozenset({"cuda"})  # devices on which all weights are updated by one kernel, which keeps step counts there

# Names of a parameter's optimiser state; the first is present whenever there is any state.
STATE: dict[OptimizerName, tuple[str, ...]] = {
    "adamw": ("exp_avg", "exp_avg_sq", "step"),
    "adamw8bit": ("state1", "state2", "qmap1", "qmap2", "absmax1", "absmax2", "step"),
}


def make_optimizer(name: OptimizerName, parameters: Iterable[Parameter], weight_decay: float) -> Optimizer:
    """Return an optimiser without state. Raises UsageError if bitsandbytes is needed and not installed."""
    settings: dict[str, Any] = {"lr": 0.0, "betas": BETAS, "weight_decay": weight_decay}
    if name == "adamw":
        weights = list(parameters)
        fused = bool(weights) and all(weight.device.type in FUSED for weight in weights)
        return torch.optim.AdamW(weights, fused=fused or None, **settings)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise UsageError(
            "optimizer.name = 'adamw8bit' keeps its state in 8 bits by bitsandbytes, which is not installed: "
            "pip install 'llm-league[8bit]'. Or set optimizer.name = 'adamw'."
        ) from error
    optimizer: Optimizer = AdamW8bit(parameters, **settings)
    return optimizer
