"""How many tokens of a batch fit into a GPU's memory in one pass, measured by trial passes before the first update.

A pass's memory depends on the model, its trained weights, checkpointing, and lengths; arithmetic in advance can only
guess. Two small passes over the batch itself measure the memory of one more token, and a third checks the number of
tokens that follows from it. Their gradients are dropped: nothing is learned from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from learners.update.policy import Policy

FIRST = 512  # tokens of the first trial pass; the second has twice as many
STEP = 256  # tokens, in multiples of which a pass is sized
KEPT_BACK = 0.1  # of the room, for fragmentation
STATE_BYTES = 8  # of a weight in training: both moments of AdamW, which the first step allocates


class DeviceMemory(Protocol):
    """The memory of a device."""

    def room(self) -> float:
        """Return how many bytes are free."""
        ...

    def peak(self, run: Callable[[], object]) -> float:
        """Return the peak memory of a call in bytes. Raises torch.OutOfMemoryError if there is not enough."""
        ...


class GpuMemory:
    """The memory of a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def room(self) -> float:
        """See ``DeviceMemory``."""
        torch.cuda.empty_cache()
        return float(torch.cuda.mem_get_info(self._device)[0])

    def peak(self, run: Callable[[], object]) -> float:
        """See ``DeviceMemory``."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._device)
        before = torch.cuda.memory_allocated(self._device)
        run()
        return float(torch.cuda.max_memory_allocated(self._device) - before)


def memory_of(policy: Policy) -> DeviceMemory | None:
    """Return the memory of a policy's device; None where it is not measured: on a CPU, and for sharded weights.

    Processes that share shards must make the same passes, which separate trial passes would not be.
    """
    device = policy.lm.device
    return GpuMemory(device) if device.type == "cuda" and not policy.sharded else None


def tokens_with_room(policy: Policy, run: Callable[[int], None], most: int, memory: DeviceMemory) -> int:
    """Return the tokens of the largest pass, at most ``most``, that fits into memory.

    ``run`` makes a forward and backward pass of at most the given number of tokens.
    """
    state = 0 if policy.optimizer.state else STATE_BYTES * sum(p.numel() for p in policy.parameters.values())

    def peak(tokens: int) -> float:
        try:
            return memory.peak(lambda: run(tokens))
        finally:
            policy.optimizer.zero_grad(set_to_none=True)

    room = (1.0 - KEPT_BACK) * memory.room() - state
    first = min(FIRST, most)
    tokens = _fitting(first, peak(first), peak(min(2 * FIRST, most)), room, most)
    while tokens > first:
        try:
            if peak(tokens) <= room:
                break
        except torch.OutOfMemoryError:
            pass  # a smaller pass is tried
        tokens = max(tokens * 3 // 4 // STEP * STEP, first)
    return tokens


def _fitting(first: int, small: float, large: float, room: float, most: int) -> int:
    """Return how many tokens fit where ``first`` take ``small`` bytes and twice as many take ``large``."""
    each = max(large - small, 1.0) / first
    if small + each * (most - first) <= room:
        return most
    return max(int(first + (room - small) / each) // STEP * STEP, min(first, most))
