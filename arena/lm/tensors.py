"""Alignment of tensors in memory, on which the last bits of a matrix product may depend.

Kernels of matrix products (MKL's, for example) read a register at a time, and may add in another order if an operand
does not begin at a multiple of 64 bytes: one register of AVX-512, one cache line. Tensors that PyTorch allocates do:
its CPU allocator aligns to 64 bytes (``gAlignment`` in c10/core/alignment.h), CUDA's to 512. Other tensors may not:
safetensors maps a file into memory, where a tensor begins at the end of the previous one, and NumPy's arrays begin at
multiples of 16. So a resumed run equals an uninterrupted one bit for bit on every processor only if the tensors that
it loads are aligned as PyTorch's.

A mapped tensor also shares memory with its file: it changes with the file, and the process dies by SIGBUS if the file
is truncated. So the weights of a loaded model are always copied.
"""

from __future__ import annotations

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
