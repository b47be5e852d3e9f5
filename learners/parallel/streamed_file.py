"""A safetensors file that is written tensor by tensor, so that no process ever holds all of it.

The format (https://github.com/huggingface/safetensors): the length of a JSON header in 8 bytes, the header, which says
where each tensor's bytes lie, and these, one tensor behind another.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 8  # bytes, of which the header is a multiple
NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
}


class TensorLayout(NamedTuple):
    """A tensor's shape and type."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> TensorLayout:
        """Return a tensor's layout; of shards, the whole one's."""
        return cls(tuple(tensor.shape), tensor.dtype)

    @property
    def bytes(self) -> int:
        """The bytes of its numbers."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def write_streamed(path: Path, layouts: Mapping[str, TensorLayout], tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write tensors that come one at a time, in the order of their ``layouts``. All of them are taken.

    Raises ValueError for others than were announced.
    """
    header, end = {}, 0
    for name, layout in layouts.items():
        header[name] = {"dtype": NAMES[layout.dtype], "shape": layout.shape, "data_offsets": (end, end + layout.bytes)}
        end += layout.bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    announced = iter(layouts.items())
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in tensors:
            if (name, TensorLayout.of(tensor)) != next(announced, None):
                raise ValueError(f"{name} arrived where another tensor was announced")
            numbers = tensor.detach().cpu().contiguous().reshape(-1)
            if len(numbers):
                file.write(numbers.view(torch.uint8).numpy().data)
    if next(announced, None) is not None:
        raise ValueError(f"{path} lacks tensors that were announced")
