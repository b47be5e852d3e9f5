"""The processes that take an update together, as ``torch.distributed`` joins them.

A row's numbers are its weights in the loss of the whole batch, so shares of a batch need no other denominators: their
losses, gradients and metrics add up to the batch's. Gradients are summed once a step, when every process has gone
through all of its chunks. That is why this is not ``DistributedDataParallel``, which wants every process to run as
many passes as the others, and would send gradients with the last of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from learners.batching import ChoiceRow, FreeRow
from learners.objective import Sums

BUCKET = 1 << 24  # numbers that are sent at once

Row = TypeVar("Row", ChoiceRow, FreeRow)


class Team(Protocol):
    """The processes of an update, seen from one of them."""

    def share(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return this process's part of the rows; together the processes have every row once."""

    def sum(self, sums: Sums) -> Sums:
        """Return the sums of all processes together, the same in each."""

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """Let every parameter have the sum of all processes' gradients."""

    def most(self, number: int) -> int:
        """Return the greatest of the processes' numbers."""


class _Alone:
    """The team of one process."""

    def share(self, rows: Sequence[Row]) -> Sequence[Row]:
        """See ``Team``."""
        return rows

    def sum(self, sums: Sums) -> Sums:
        """See ``Team``."""
        return sums

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """See ``Team``."""

    def most(self, number: int) -> int:
        """See ``Team``."""
        return number


ALONE = _Alone()


class Processes:
    """The processes of a group; ``device`` is what this one's messages go over (a GPU for NCCL)."""

    def __init__(self, device: torch.device | str = "cpu", group: dist.ProcessGroup | None = None) -> None:
        self._device, self._group = torch.device(device), group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def share(self, rows: Sequence[Row]) -> Sequence[Row]:
        """See ``Team``. Rows stand in the order of their prompts, so that those that begin alike stay together."""
        ordered = sorted(rows, key=lambda row: row.prompt)
        sizes = [_tokens(row) for row in ordered]
        total, begun, own = sum(sizes), 0, []
        for row, size in zip(ordered, sizes, strict=True):
            if (2 * begun + size) * self.size // (2 * total) == self.rank:  # where the row's middle lies
                own.append(row)
            begun += size
        return own

    def sum(self, sums: Sums) -> Sums:
        """See ``Team``."""
        together = Sums()
        for totals in map(json.loads, self.gather(json.dumps(sums.totals))):
            for name, value in totals.items():
                together.totals[name] = together.totals.get(name, 0.0) + value
        return together

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """See ``Team``. A parameter without a gradient counts as one whose gradient is 0."""
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat, group=self._group)
            for gradient, summed in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(summed.view_as(gradient))

    def most(self, number: int) -> int:
        """See ``Team``."""
        return max(map(int, self.gather(str(number))))

    def gather(self, text: str) -> list[str]:
        """Return every process's text, by rank."""
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(self._device)
        lengths = [torch.zeros(1, dtype=torch.long, device=self._device) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(data)], device=self._device), group=self._group)
        width = max(map(int, lengths))
        texts = [torch.zeros(width, dtype=torch.uint8, device=self._device) for _ in range(self.size)]
        dist.all_gather(texts, torch.nn.functional.pad(data, (0, width - len(data))), group=self._group)
        return [bytes(t[: int(n)].tolist()).decode() for t, n in zip(texts, lengths, strict=True)]

    def tell(self, text: str) -> str:
        """Return the text of the process of rank 0; what others give does not count."""
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(self._device)
        length = torch.tensor([len(data)], device=self._device)
        dist.broadcast(length, 0, group=self._group)
        if self.rank:
            data = torch.zeros(int(length), dtype=torch.uint8, device=self._device)
        dist.broadcast(data, 0, group=self._group)
        return bytes(data.tolist()).decode()

    def hand_out(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the process of rank 0; what others give does not count."""
        heads = [(name, list(tensor.shape), str(tensor.dtype)[len("torch.") :]) for name, tensor in tensors.items()]
        found = {}
        for name, shape, dtype in json.loads(self.tell(json.dumps(heads))):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=self._device)
            if not self.rank:
                tensor.copy_(tensors[name])
            dist.broadcast(tensor, 0, group=self._group)
            found[name] = tensor
        return found


def _tokens(row: ChoiceRow | FreeRow) -> int:
    """Return about how many tokens a row is to read."""
    return len(row.prompt) + len(row.reply if isinstance(row, FreeRow) else row.legal)


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield tensors, in order, in lists of not much more than BUCKET numbers."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        bucket.append(tensor)
        if sum(one.numel() for one in bucket) >= BUCKET:
            yield bucket
            bucket = []
    if bucket:
        yield bucket
