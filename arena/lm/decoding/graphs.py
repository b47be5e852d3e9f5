"""Decoding steps that a GPU repeats without the CPU: captured once as a CUDA graph, then replayed.

To launch the thousand kernels of one decoding step takes the processor longer than a GPU takes to run them. A graph
launches all at once. It reads and writes the addresses that it was captured with, so a step keeps all that changes in
tensors that stay where they are, and must not wait for the device. On a CPU the same step is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

WARM_UPS = 2  # runs before the capture, in which libraries allocate what they need once


class GraphPool:
    """Captures steps of one device; their graphs share the memory of what a step computes in between.

    ``captures``: whether the device can; else steps are to be called.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self.captures = device, device.type == "cuda"
        self._pool: Any = None
        self._alive: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def capture(self, step: Callable[[], None], changed: Sequence[Tensor]) -> Callable[[], None]:
        """Return a call that runs ``step``; ``changed`` are tensors that it writes and reads again.

        What it writes elsewhere must be overwritten before it is read, because the step runs before it is captured.
        """
        with unchanged(changed), _beside(self._device):
            for _ in range(WARM_UPS):
                step()
        if not self._alive:  # the allocator gives a pool up with its last graph, and takes no other into it
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device), torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
            step()
        self._alive.add(graph)
        return graph.replay


@contextmanager
def unchanged(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Put back afterwards what the tensors hold now."""
    before = [tensor.clone() for tensor in tensors]
    try:
        yield
    finally:
        for tensor, kept in zip(tensors, before, strict=True):
            tensor.copy_(kept)


@contextmanager
def _beside(device: torch.device) -> Iterator[None]:
    """Run on a stream of its own, as PyTorch asks for the runs before a capture."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)
