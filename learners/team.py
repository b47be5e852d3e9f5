"""The processes that take an update together, as ``torch.distributed`` joins them.

A row's numbers are its weights in the loss of the whole batch, so shares of a batch need no other denominators: their
losses, gradients and metrics add up to the batch's. Gradients are summed once a step, when every process has gone
through all of its chunks. That is why this is not ``DistributedDataParallel``, which wants every process to run as
many passes as the others, and would send gradients with the last of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from learners.batching import ChoiceRow, FreeRow
from learners.objective import Sums
from learners.preferences import Unit

BUCKET = 1 << 24  # numbers that are sent at once


class Team(Protocol):
    """The processes of an update, seen from one of them."""

    def share(self, units: Sequence[Unit], rows: Sequence[ChoiceRow | FreeRow]) -> Sequence[Unit]:
        """Return this process's part of the units, which are numbers of rows; together the processes have each once."""

    def sum(self, sums: Sums) -> Sums:
        """Return the sums of all processes together, the same in each."""

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """Let every parameter have the sum of all processes' gradients."""

    def most(self, number: int) -> int:
        """Return the greatest of the processes' numbers."""


class _Alone:
    """The team of one process."""

    def share(self, units: Sequence[Unit], rows: Sequence[ChoiceRow | FreeRow]) -> Sequence[Unit]:
        """See ``Team``."""
        return units

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
    """The processes that ``torch.distributed`` has joined; gradients are sent from where they are, words by the CPU."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def share(self, units: Sequence[Unit], rows: Sequence[ChoiceRow | FreeRow]) -> Sequence[Unit]:
        """See ``Team``. Units stand in the order of their prompts, so that those that begin alike stay together."""
        ordered = sorted(units, key=lambda unit: rows[unit[0]].prompt)
        sizes = [sum(_tokens(rows[number]) for number in unit) for unit in ordered]
        total, begun, own = sum(sizes), 0, []
        for unit, size in zip(ordered, sizes, strict=True):
            if (2 * begun + size) * self.size // (2 * total) == self.rank:  # where the unit's middle lies
                own.append(unit)
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
            dist.all_reduce(flat)
            for gradient, summed in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(summed.view_as(gradient))

    def most(self, number: int) -> int:
        """See ``Team``."""
        return max(map(int, self.gather(str(number))))

    def gather(self, text: str) -> list[str]:
        """Return every process's text, by rank."""
        data = _data(text)
        lengths = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(data)]))
        width = max(map(int, lengths))
        texts = [torch.zeros(width, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(texts, torch.nn.functional.pad(data, (0, width - len(data))))
        return [_text(own[: int(length)]) for own, length in zip(texts, lengths, strict=True)]

    def tell(self, text: str) -> str:
        """Return the text of the process of rank 0; what others give does not count."""
        data = _data(text)
        length = torch.tensor([len(data)])
        dist.broadcast(length, 0)
        if self.rank:
            data = torch.zeros(int(length), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return _text(data)

    def hand_out(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the process of rank 0; what others give does not count."""
        heads = [(name, list(tensor.shape), str(tensor.dtype)[len("torch.") :]) for name, tensor in tensors.items()]
        found = {}
        for name, shape, dtype in json.loads(self.tell(json.dumps(heads))):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            if not self.rank:
                tensor.copy_(tensors[name])
            dist.broadcast(tensor, 0)
            found[name] = tensor
        return found


def _data(text: str) -> Tensor:
    """Return a text as bytes.  # [N]"""
    data = bytearray(text.encode())
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def _text(data: Tensor) -> str:
    return data.numpy().tobytes().decode()


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
