"""How tensors lie in memory, on which the speed and the last bits of a matrix product may depend.

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
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

ALIGNMENT = 64  # bytes


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


def use_contiguous_states(model: Any) -> None:
    """Make a model's output head read contiguous states. A model that has been given this keeps it, copies too."""
    head = model.get_output_embeddings()
    if head is not None and _contiguous not in head._forward_pre_hooks.values():
        head.register_forward_pre_hook(_contiguous)


def _contiguous(_head: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    states, *others = inputs
    # Not contiguous(), which leaves a single row as it is, with the strides of the slice: those decide too.
    return (states.clone(memory_format=torch.contiguous_format), *others)
