"""Memory layout and summation of tensors, on which the speed and the last bits of products may depend.

Kernels of matrix products (MKL's, for example) read a register at a time, and may add in another order if an operand
does not begin at a multiple of 64 bytes: one register of AVX-512, one cache line. Tensors that PyTorch allocates do:
its CPU allocator aligns to 64 bytes (``gAlignment`` in c10/core/alignment.h), CUDA's to 512. Other tensors may not:
safetensors maps a file into memory, where a tensor begins at the end of the previous one, and NumPy's arrays begin at
multiples of 16. So a resumed run equals an uninterrupted one bit for bit on every processor only if the tensors that
it loads are aligned as PyTorch's.

A mapped tensor also shares memory with its file: it changes with the file, and the process dies by SIGBUS if the file
is truncated. So the weights of a loaded model are always copied.

A model that is given ``logits_to_keep`` slices its states [N, S, H] to [N, keep, H], which is not contiguous. PyTorch's
``linear`` folds such an input into one product [N * keep, H] x [H, V] only where the weights require a gradient;
otherwise it takes a batched product, for which it copies the head's weights once a row: with a vocabulary of 49,152 and
64 rows in bfloat16 that took 5,140 ms where one product takes 11. So the output head reads contiguous states.

A layer with an adapter computes W x + scaling * B (A x). PEFT writes the second product to memory, then its scaled
copy, then the sum. Here the product adds into the layer's output. Adapters of another type than the base, which is how
bfloat16 is trained, go PEFT's way: there the sum is rounded once.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Identity, Module

ALIGNMENT = 64  # bytes


def to_device(data: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return data, a tensor or what makes one, on a device; a GPU copies it while the processor continues.

    Only from memory that cannot be moved (pinned) does a GPU copy by itself.
    """
    tensor = data if isinstance(data, Tensor) else torch.tensor(data, dtype=dtype)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def heads(config: Any) -> tuple[int, int, int]:
    """Return how many heads a layer's queries and its keys have, and their width."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_attention_heads, config.num_key_value_heads, width


def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Return which keys of a sequence its last queries see: none after their own.  # [queries, keys]"""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def is_aligned(tensor: Tensor) -> bool:
    """Return whether a tensor begins at a multiple of ``ALIGNMENT``."""
    return tensor.data_ptr() % ALIGNMENT == 0


def aligned(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy if it is not aligned."""
    return tensor if is_aligned(tensor) else tensor.clone()


def own_memory(module: Module) -> None:
    """Copy a module's parameters and buffers on the CPU into newly allocated memory, in place and one after another.

    Those on a GPU are copies already.
    """
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def copied_modules(module: Module, memo: dict[int, Any]) -> Any:
    """Return a copy of modules without hooks of their own, in a fifth of the time of ``copy.deepcopy``.

    As there, ``memo`` holds by ``id`` what takes a thing's place; parameters must all be in it. Buffers are copied, and
    so are collections; anything else is shared.
    """
    if (known := memo.get(id(module))) is not None:
        return known
    memo[id(module)] = copied = object.__new__(type(module))
    for name, value in vars(module).items():
        match value:
            case dict() | set() | list():
                place: Any = value.copy()
            case _:
                place = memo.get(id(value), value)
        vars(copied)[name] = place
    for name, parameter in module._parameters.items():
        copied._parameters[name] = memo[id(parameter)] if parameter is not None else None
    for name, buffer in module._buffers.items():
        copied._buffers[name] = buffer.clone() if buffer is not None else None
    for name, child in module._modules.items():
        copied._modules[name] = copied_modules(child, memo) if child is not None else None
    return copied


def use_contiguous_states(model: Any) -> None:
    """Make a model's output head read contiguous states. A model that has been given this keeps it, copies too."""
    head = model.get_output_embeddings()
    if head is not None and _contiguous not in head._forward_pre_hooks.values():
        head.register_forward_pre_hook(_contiguous)


def _contiguous(_head: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    states, *others = inputs
    # Not contiguous(), which leaves a single row as it is, with the strides of the slice: those decide too.
    return (states.clone(memory_format=torch.contiguous_format), *others)


def adapted_layers(model: Any) -> list[tuple[str, Any]]:
    """Return a model's layers with adapters by name, each with this forward pass."""
    layers = [(name, module) for name, module in model.named_modules() if hasattr(module, "lora_A")]
    for _, layer in layers:
        if "forward" not in vars(layer):
            layer.forward = MethodType(_forward, layer)
    return layers


def _forward(layer: Any, x: Tensor) -> Tensor:
    if mixture := getattr(layer, "mixture", ()):
        return _mixed(layer, x, [(name, share) for name, share in mixture if name in layer.lora_A])
    names = [name for name in layer.active_adapters if name in layer.lora_A]
    if len(names) != 1 or not _is_plain(layer, names[0], x):
        result: Tensor = type(layer).forward(layer, x)
        return result
    [name] = names
    rows = x.flatten(0, -2)  # two dimensions, so that the sum is not made in a view, whose gradient is copied
    output: Tensor = layer.base_layer(rows)
    output.addmm_(layer.lora_A[name](rows), layer.lora_B[name].weight.T, alpha=layer.scaling[name])
    shaped: Tensor = output.view(*x.shape[:-1], -1)
    return shaped


def _mixed(layer: Any, x: Tensor, mixture: list[tuple[str, Tensor]]) -> Tensor:
    """Run several adapters side by side, of which each row of x [R, S, H] has a share [R]."""
    output: Tensor = layer.base_layer(x)
    if not mixture:
        return output
    down = torch.cat([layer.lora_A[name].weight for name, _ in mixture])  # [sum of ranks, in]
    up = torch.cat([layer.scaling[name] * layer.lora_B[name].weight for name, _ in mixture], 1)  # [out, sum of ranks]
    shares = torch.cat([share[:, None].expand(-1, layer.r[name]) for name, share in mixture], 1)
    inner = (x.to(down.dtype) @ down.T) * shares[:, None].to(down.dtype)  # [R, S, sum of ranks]
    return output + (inner @ up.T).to(output.dtype)


def _is_plain(layer: Any, name: str, x: Tensor) -> bool:
    """Return whether the layer computes nothing but the two products, all in one type."""
    return (
        isinstance(layer.lora_dropout[name], Identity)
        and not (layer.lora_variant or layer.merged or layer.disable_adapters)
        and x.dtype == layer.lora_A[name].weight.dtype
    )
