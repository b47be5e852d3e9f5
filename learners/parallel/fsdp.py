"""Weights sharded over processes: PyTorch's FSDP2 (``fully_shard``; Zhao et al., arXiv 2304.11277).

Each process holds its shard of every weight, of its gradient and of its optimiser state; a layer's weights are gathered
while the layer runs. A model without data (the meta device) gets room for its shard alone: its weights come later,
tensor by tensor. Adapters are replicated in every process, because they are small compared with the sharded base.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import Module
from transformers.modeling_layers import GradientCheckpointingLayer

from arena.process import give_memory_back


def shard(model: Module, mesh: DeviceMesh) -> None:
    """Shard a model's weights, layer by layer, in place. Gradients are summed over processes, in single precision.

    Weights on the meta device have any values then. On a CPU, freed memory goes back to the system from now on.
    """
    if mesh.device_type == "cpu":
        give_memory_back()
    replicated = {weight for name, weight in model.named_parameters() if ".lora_" in name}
    layers: list[Module] = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    for module in [*layers, model]:
        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
        fully_shard(module, mesh=mesh, mp_policy=policy, ignored_params=replicated)
        sharded: Any = module
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction, and nothing is divided here
    if any(weight.is_meta for weight in model.parameters()):
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        model.to_empty(device=mesh.device_type)
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])


def is_sharded(model: Module) -> bool:
    """Return whether a model's weights are sharded."""
    return isinstance(model, FSDPModule)


def reshard(model: Any) -> None:
    """Let a model's parameters be its shards again: after a forward pass alone the outermost module's are whole."""
    if is_sharded(model):
        model.reshard()


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor gathered from its shards; all processes that hold them must call this at the same time."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a full tensor on another's device, sharded as that one is; shards stay what they are."""
    if isinstance(tensor, DTensor):
        return tensor
    moved = tensor.to(other.device)
    if isinstance(other, DTensor) and tensor.dim():  # step counts are not sharded
        return distribute_tensor(moved, other.device_mesh, other.placements, src_data_rank=None)  # all have it
    return moved
