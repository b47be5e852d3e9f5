"""The operations between a model's matrix products, norms and gates, each compiled to one kernel by ``torch.compile``.

Run operation by operation, a norm reads and writes its numbers six times and a gate twice. Compiled are these two
functions alone, over rows of any number: so each is compiled once and not for every shape of a pass, and adapters,
attention and cached keys, which change from pass to pass, stay outside. PyTorch compiles by a C++ compiler, or, for a
GPU, by Triton; the first passes take seconds more.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from games.common.errors import UsageError


def compile_between_products(model: Any, backend: str | Callable[..., Any] = "inductor") -> None:
    """Let a model's norms and gates run compiled. Raises UsageError for a model without any that are known."""
    norm = torch.compile(_rms_norm, dynamic=True, backend=backend)
    gate = torch.compile(_gate, dynamic=True, backend=backend)

    def run_norm(module: Any, states: Tensor) -> Tensor:
        rows = norm(states.reshape(-1, states.shape[-1]), module.weight, module.variance_epsilon)
        return rows.view(states.shape)

    def run_mlp(module: Any, states: Tensor) -> Tensor:
        gates, values = module.gate_proj(states), module.up_proj(states)
        gated = gate(gates.reshape(-1, gates.shape[-1]), values.reshape(-1, values.shape[-1]))
        result: Tensor = module.down_proj(gated.view(gates.shape))
        return result

    silent = getattr(model.config, "hidden_act", None) == "silu"
    known = 0
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon"):
            module.forward = MethodType(run_norm, module)
        elif silent and all(hasattr(module, name) for name in ("gate_proj", "up_proj", "down_proj")):
            module.forward = MethodType(run_mlp, module)
        else:
            continue
        known += 1
    if not known:
        raise UsageError(
            f"model.compile = true compiles root-mean-square norms and SiLU gates, and {type(model).__name__} has "
            "none. Set model.compile = false."
        )


def _rms_norm(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Return rows [N, H] divided by their root mean square, times the weight [H], as ``transformers`` rounds it."""
    single = states.to(torch.float32)
    scaled = single * torch.rsqrt(single.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * scaled.to(states.dtype)


def _gate(gates: Tensor, values: Tensor) -> Tensor:
    return silu(gates) * values
