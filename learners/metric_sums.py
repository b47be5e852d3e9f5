"""Sums of metrics over the chunks and processes of an update."""

from __future__ import annotations

from torch import Tensor


class MetricSums:
    """Sums over a batch's turns, by name, of which means are reported."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}

    def add(self, name: str, values: Tensor) -> None:
        """Add the sum of ``values`` to the total of ``name``."""
        self.totals[name] = self.totals.get(name, 0.0) + float(values.detach().sum())

    def mean(self, name: str, over: str = "turns") -> float:
        """Return the total of ``name`` divided by the total of ``over``."""
        return self.totals.get(name, 0.0) / max(self.totals.get(over, 0.0), 1.0)
