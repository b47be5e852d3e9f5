"""Sums of metrics over the chunks and processes of an update."""

from __future__ import annotations

import torch
from torch import Tensor


class MetricSums:
    """Sums over a batch's turns, by name; their means are reported.

    Sums stay on their device until all are read together. Reading each one separately would make every pass wait some
    ten times for the GPU to finish its queue.
    """

    def __init__(self) -> None:
        self._totals: dict[str, float] = {}
        self._unread: list[tuple[str, Tensor]] = []
        self._greatest: dict[str, Tensor] = {}

    def raise_to(self, name: str, values: Tensor) -> None:
        """Let the maximum of ``name`` be at least the greatest of ``values``; it is not a sum."""
        if values.numel():
            top = values.detach().max()
            self._greatest[name] = torch.maximum(self._greatest[name], top) if name in self._greatest else top

    @property
    def maxima(self) -> dict[str, float]:
        """The maxima so far, by name."""
        return {name: float(top) for name, top in self._greatest.items()}

    def add(self, name: str, values: Tensor) -> None:
        """Add the sum of ``values`` to the total of ``name``."""
        self._unread.append((name, values.detach().sum()))

    @property
    def totals(self) -> dict[str, float]:
        """The sums so far, by name."""
        if self._unread:
            numbers = torch.stack([total.double() for _, total in self._unread]).tolist()
            for (name, _), number in zip(self._unread, numbers, strict=True):
                self._totals[name] = self._totals.get(name, 0.0) + number
            self._unread.clear()
        return self._totals

    def mean(self, name: str, over: str = "turns") -> float:
        """Return the total of ``name`` divided by the total of ``over``."""
        return self.totals.get(name, 0.0) / max(self.totals.get(over, 0.0), 1.0)
