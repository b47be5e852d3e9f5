"""Preference pairs (``dpo``): which free rows must go through the model in one pass, and the loss of the pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from arena.lm.tensors import to_device
from learners.batching import FreeRow, Pair, RowUnit
from learners.losses.surrogates import dpo_loss
from learners.metric_sums import MetricSums


def group_paired_rows(rows: Sequence[FreeRow], pairs: Sequence[Pair]) -> list[RowUnit]:
    """Return units of row indices: paired rows with the same prompt are one unit, every other row is its own."""
    paired = {index for pair in pairs for index in (pair.chosen, pair.rejected)}
    units: dict[object, list[int]] = {}
    for index, row in enumerate(rows):
        sampling = row.game, row.prompt, row.temperature, row.truncation
        units.setdefault(sampling if index in paired else index, []).append(index)
    return [tuple(unit) for unit in units.values()]


class PreferencePairs:
    """The pairs of one chunk, as indices of its M replies."""

    def __init__(self, pairs: Sequence[Pair], device: torch.device) -> None:
        self._chosen = to_device([pair.chosen for pair in pairs], device, torch.long)  # [P]
        self._rejected = to_device([pair.rejected for pair in pairs], device, torch.long)  # [P]
        self._multiplicity = to_device([pair.multiplicity for pair in pairs], device)  # [P]
        self._weight = to_device([pair.weight for pair in pairs], device)  # [P]

    def loss(self, preferred: Tensor, beta: float, sums: MetricSums) -> Tensor:
        """Return the weighted loss of all pairs; ``preferred`` is log pi - log reference of each reply.  # [M] -> []

        Adds to ``sums`` the number of ``pairs``, the number whose better reply is ``preferred`` to the worse one, and
        by how many nats (``margin``).
        """
        chosen, rejected = preferred[self._chosen], preferred[self._rejected]
        sums.add("pairs", self._multiplicity)
        sums.add("preferred", self._multiplicity * (chosen > rejected))
        sums.add("margin", self._multiplicity * (chosen - rejected))
        return (self._weight * dpo_loss(chosen, rejected, beta)).sum()
