"""Pairs of replies in an update: which free rows have to go through the model together, and what the pairs cost."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from learners.batching import FreeRow, Pair
from learners.losses import dpo_loss
from learners.objective import Sums

Unit = tuple[int, ...]  # the numbers of rows that go through the model together


def together(rows: Sequence[FreeRow], pairs: Sequence[Pair]) -> list[Unit]:
    """Return the rows of paired replies by their prompt, every other row by itself."""
    paired = {number for pair in pairs for number in (pair.chosen, pair.rejected)}
    units: dict[object, list[int]] = {}
    for number, row in enumerate(rows):
        units.setdefault((row.game, row.prompt, row.temperature) if number in paired else number, []).append(number)
    return [tuple(unit) for unit in units.values()]


class Preferences:
    """The pairs of one chunk, as places among its M replies."""

    def __init__(self, pairs: Sequence[Pair], device: torch.device) -> None:
        self._chosen = torch.tensor([pair.chosen for pair in pairs], dtype=torch.long, device=device)  # [P]
        self._rejected = torch.tensor([pair.rejected for pair in pairs], dtype=torch.long, device=device)  # [P]
        self._number = torch.tensor([pair.number for pair in pairs], device=device)  # [P]
        self._weight = torch.tensor([pair.weight for pair in pairs], device=device)  # [P]

    def loss(self, preferred: Tensor, beta: float, sums: Sums) -> Tensor:
        """Return the weighted loss of all pairs; ``preferred`` is log pi - log reference of each reply.  # [M] -> []

        Adds to ``sums`` how many ``pairs`` there are, of how many the better reply is ``preferred`` more than the
        worse one, and by how many nats (``margin``).
        """
        chosen, rejected = preferred[self._chosen], preferred[self._rejected]
        sums.add("pairs", self._number)
        sums.add("preferred", self._number * (chosen > rejected))
        sums.add("margin", self._number * (chosen - rejected))
        return (self._weight * dpo_loss(chosen, rejected, beta)).sum()
