"""An optimiser's moments away from the device between steps, as ZeRO-Offload has them (Ren et al., arXiv 2101.06840).

Both moments of AdamW take 8 bytes a weight, and only a step reads them. So they wait in main memory, or, of a model on
a CPU, in a file without a name, and a step has those of one weight after the other on the device. The numbers are the
same as in a step of all weights at once.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Parameter
from torch.optim import Optimizer

MOMENTS = ("exp_avg", "exp_avg_sq")
BLOCK = 1 << 30  # bytes of main memory that are page-locked at once

Key = TypeVar("Key", bound=Hashable)


class AwayMoments:
    """The moments of an optimiser's weights, whole ones or this process's shards, and the steps that read them."""

    def __init__(self, optimizer: Optimizer, parameters: Iterable[Parameter], folder: Path) -> None:
        """``folder`` gets the file of a model on a CPU; one that is not on this machine is replaced by a usual one."""
        self._optimizer, self._parameters, self._folder = optimizer, list(parameters), folder
        self._rooms: dict[tuple[Parameter, str], _Room] = {}

    def step(self) -> None:
        """Take a step, weight by weight; the gradients are gone then."""
        gradients = {parameter: parameter.grad for parameter in self._parameters if parameter.grad is not None}
        for parameter in gradients:
            parameter.grad = None
        while gradients:
            parameter, parameter.grad = gradients.popitem()
            state = self._optimizer.state.get(parameter, {})
            for name in MOMENTS:
                if name in state:
                    state[name] = _like(state[name], _own(state[name]).to(parameter.device))
            self._optimizer.step()
            parameter.grad = None
            self.put_away(parameter)

    def put_away(self, parameter: Parameter) -> None:
        """Move the moments of a weight away from its device, those that there are."""
        if not self._rooms:
            self._make_rooms()
        state = self._optimizer.state.get(parameter, {})
        for name in MOMENTS:
            if name in state:
                state[name] = _like(state[name], self._rooms[parameter, name].keep(_own(state[name])))

    def _make_rooms(self) -> None:
        sizes = {(p, name): _own(p).numel() * p.element_size() for p in self._parameters for name in MOMENTS}
        on_cpu = all(parameter.device.type == "cpu" for parameter in self._parameters)
        places, ends = in_blocks(sizes, 0 if on_cpu else BLOCK)
        file = _mapped(max(ends[0], 1), self._folder) if on_cpu else None
        memory = [torch.empty(end, dtype=torch.uint8, pin_memory=True) for end in ends] if not on_cpu else []
        for (parameter, name), (block, start) in places.items():
            own, size = _own(parameter), sizes[parameter, name]
            if not own.numel():
                flat = torch.empty_like(own)
            elif file is not None:
                flat = torch.frombuffer(file, dtype=own.dtype, count=own.numel(), offset=start)
            else:
                flat = memory[block][start : start + size].view(own.dtype)
            self._rooms[parameter, name] = _Room(flat.view(own.shape), file, start, size)


def in_blocks(sizes: Mapping[Key, int], most: int) -> tuple[dict[Key, tuple[int, int]], list[int]]:
    """Return each room's block, and where in it the room begins, on a page; and where the blocks end (all in bytes).

    A block has ``most`` bytes at most, unless one room has more; 0: one block for all. PyTorch rounds page-locked
    memory up to a power of two, so that one block of 33 GiB would take 64.
    """
    places, ends = dict[Key, tuple[int, int]](), [0]
    for key in sorted(sizes, key=lambda key: -sizes[key]) if most else sizes:
        pages = -(-sizes[key] // mmap.PAGESIZE) * mmap.PAGESIZE
        fitting = (block for block, end in enumerate(ends) if not most or not end or end + pages <= most)
        if (block := next(fitting, len(ends))) == len(ends):
            ends.append(0)
        places[key] = block, ends[block]
        ends[block] += pages
    return places, ends


class _Room:
    """Where one tensor waits."""

    def __init__(self, tensor: Tensor, file: mmap.mmap | None, start: int, size: int) -> None:
        self._tensor, self._file, self._start, self._size = tensor, file, start, size

    def keep(self, tensor: Tensor) -> Tensor:
        """Return the same numbers in this room; of a file, they leave the process's memory."""
        if tensor.data_ptr() != self._tensor.data_ptr():
            self._tensor.copy_(tensor)
        if self._file is not None and self._size and hasattr(mmap, "MADV_DONTNEED"):
            self._file.madvise(mmap.MADV_DONTNEED, self._start, self._size)  # they are the file's, and stay in it
        return self._tensor


def _mapped(size: int, folder: Path) -> mmap.mmap:
    """Return a new file of zeros without a name, which goes with the process."""
    with tempfile.TemporaryFile(dir=folder if folder.is_dir() else None) as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)


def _own(tensor: Tensor) -> Tensor:
    """Return what this process has of a tensor."""
    held: Any = tensor.detach()
    own: Tensor = held.to_local() if isinstance(held, DTensor) else held
    return own


def _like(tensor: Tensor, own: Tensor) -> Tensor:
    """Return what this process has of a tensor as the tensor that it is a shard of, wherever it is."""
    if not isinstance(tensor, DTensor):
        return own
    spec: Any = tensor._spec
    return DTensor(own, spec, requires_grad=False)  # as FSDP makes its shards
