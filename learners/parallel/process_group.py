"""Data-parallel updates: a batch's rows are split over processes, and gradients and metrics are summed.

A row holds its weights in the loss of the whole batch, so the processes' losses, gradients and metrics sum to
the batch's without further division. Gradients are summed once a step, when every process has finished all of
its chunks. ``DistributedDataParallel`` does not fit: it requires the same number of passes in every process, and sums
gradients during the last one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from learners.batching import ChoiceRow, FreeRow, RowUnit
from learners.metric_sums import MetricSums

BUCKET_NUMEL = 1 << 24  # gradient elements in one all-reduce


class ProcessGroup(Protocol):
    """The collective operations of an update, as one of its processes calls them."""

    def local_units(self, units: Sequence[RowUnit], rows: Sequence[ChoiceRow | FreeRow]) -> Sequence[RowUnit]:
        """Return this process's part of the units; every unit belongs to exactly one process."""

    def sum_metrics(self, sums: MetricSums) -> MetricSums:
        """Return the totals over all processes, the same in each."""

    def sum_numbers(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over all processes of each number, the same in each."""

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """Replace every parameter's gradient by the sum over all processes."""

    def max(self, number: int) -> int:
        """Return the maximum over all processes."""


class _SingleProcess:
    """The group of one process."""

    def local_units(self, units: Sequence[RowUnit], rows: Sequence[ChoiceRow | FreeRow]) -> Sequence[RowUnit]:
        """See ``ProcessGroup``."""
        return units

    def sum_metrics(self, sums: MetricSums) -> MetricSums:
        """See ``ProcessGroup``."""
        return sums

    def sum_numbers(self, numbers: Sequence[float]) -> list[float]:
        """See ``ProcessGroup``."""
        return list(numbers)

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """See ``ProcessGroup``."""

    def max(self, number: int) -> int:
        """See ``ProcessGroup``."""
        return number


SINGLE_PROCESS = _SingleProcess()


class TorchProcessGroup:
    """The default process group of ``torch.distributed``; gradients stay on their device, texts go through the CPU."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def local_units(self, units: Sequence[RowUnit], rows: Sequence[ChoiceRow | FreeRow]) -> Sequence[RowUnit]:
        """See ``ProcessGroup``. Units are split in the order of their prompts, so that common prefixes stay together.

        The processes divide the tokens evenly; a unit belongs to the process in whose range its midpoint lies.
        """
        ordered = sorted(units, key=lambda unit: rows[unit[0]].prompt)
        sizes = [sum(_tokens(rows[index]) for index in unit) for unit in ordered]
        total, start, local = sum(sizes), 0, []
        for unit, size in zip(ordered, sizes, strict=True):
            if (2 * start + size) * self.size // (2 * total) == self.rank:
                local.append(unit)
            start += size
        return local

    def sum_metrics(self, sums: MetricSums) -> MetricSums:
        """See ``ProcessGroup``."""
        combined = MetricSums()
        for totals, maxima in map(json.loads, self.gather_texts(json.dumps([sums.totals, sums.maxima]))):
            for name, value in totals.items():
                combined.totals[name] = combined.totals.get(name, 0.0) + value
            for name, value in maxima.items():
                combined.raise_to(name, torch.tensor([value], dtype=torch.float64))
        return combined

    def sum_numbers(self, numbers: Sequence[float]) -> list[float]:
        """See ``ProcessGroup``."""
        gathered = [json.loads(text) for text in self.gather_texts(json.dumps(list(numbers)))]
        return [sum(parts) for parts in zip(*gathered, strict=True)]

    def sum_gradients(self, parameters: Sequence[Parameter]) -> None:
        """See ``ProcessGroup``. A missing gradient counts as 0."""
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            for gradient, summed in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(summed.view_as(gradient))

    def max(self, number: int) -> int:
        """See ``ProcessGroup``."""
        return max(map(int, self.gather_texts(str(number))))

    def gather_texts(self, text: str) -> list[str]:
        """Return every process's text, by rank."""
        data = _data(text.encode())
        lengths = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(data)]))
        width = max(map(int, lengths))
        texts = [torch.zeros(width, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(texts, torch.nn.functional.pad(data, (0, width - len(data))))
        return [_text(padded[: int(length)]) for padded, length in zip(texts, lengths, strict=True)]

    def broadcast_text(self, text: str) -> str:
        """Return the text of rank 0; the argument of other ranks is ignored."""
        return self.broadcast_bytes(text.encode()).decode()

    def broadcast_bytes(self, content: bytes) -> bytes:
        """Return the bytes of rank 0; the argument of other ranks is ignored."""
        data = _data(content)
        length = torch.tensor([len(data)])
        dist.broadcast(length, 0)
        if self.rank:
            data = torch.zeros(int(length), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return data.numpy().tobytes()

    def broadcast_tensors(self, tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors of rank 0, one at a time; the argument of other ranks is ignored. Take all of them."""
        own = iter(tensors)
        while True:
            name, mine = ("", None) if self.rank else next(own, ("", None))
            header = "" if mine is None else json.dumps([name, list(mine.shape), str(mine.dtype)[len("torch.") :]])
            if not (header := self.broadcast_text(header)):
                return
            name, shape, dtype = json.loads(header)
            tensor = torch.empty(shape, dtype=getattr(torch, dtype)) if mine is None else mine.cpu().contiguous()
            dist.broadcast(tensor, 0)
            yield name, tensor


def _data(content: bytes) -> Tensor:
    """Return bytes as a tensor.  # [N]"""
    data = bytearray(content)
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def _text(data: Tensor) -> str:
    return data.numpy().tobytes().decode()


def _tokens(row: ChoiceRow | FreeRow) -> int:
    """Return roughly how many tokens of a row go through the model."""
    return len(row.prompt) + len(row.reply if isinstance(row, FreeRow) else row.legal)


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield tensors, in order, in lists; a list ends with the tensor that fills it to BUCKET_NUMEL elements."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        bucket.append(tensor)
        if sum(t.numel() for t in bucket) >= BUCKET_NUMEL:
            yield bucket
            bucket = []
    if bucket:
        yield bucket
