"""A chunk's draws as tensors: everything that depends on the engine's sampled log-probs, draw by draw.

An engine's arithmetic may give equal replies to equal prompts other log-probs from draw to draw (vLLM does), so
importance weights and gaps belong to draws, and only their multiplicands can be merged. Dimensions: rows R
and elements W of the chunk; draws D, each the turns of a row with equal replies and equal log-probs; entries E, the
elements that a draw sampled, one draw after another: a choice is one, a free reply as many as it has tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from arena.lm.tensors import to_device
from learners.batching import ChoiceRow, FreeRow
from learners.losses.distributions import within
from learners.normalisation import Mismatch

NEAR = (0.9, 1.1)  # ratios that count as no mismatch, in the metric of how many are outside


class DrawTensors(NamedTuple):
    """The draws of a chunk, entry by entry."""

    element: Tensor  # index into the chunk's R * W elements  # [E]
    draw: Tensor  # index of the entry's draw  # [E]
    sampled: Tensor  # the sampler's log-prob (nats)  # [E]
    shares: Tensor  # the draw's turns, divided by the number of its entries  # [E]
    gains: Tensor  # the draw's weighted sum of positive advantages  # [E]
    losses: Tensor  # the draw's weighted sum of negative advantages  # [E]
    turns: Tensor  # [D]

    @classmethod
    def of_rows(cls, rows: Sequence[ChoiceRow | FreeRow], width: int, device: torch.device) -> Self:
        """Return the draws of a chunk's rows, which are padded to ``width`` elements."""
        draws = [(row_index * width + draw.reply, draw) for row_index, row in enumerate(rows) for draw in row.draws]
        lengths = [len(draw.sampled) for _, draw in draws]

        def by_entry(numbers: Sequence[float]) -> Tensor:
            by_entry = torch.repeat_interleave(torch.tensor(numbers), torch.tensor(lengths, dtype=torch.long))
            return to_device(by_entry, device)

        return cls(
            to_device([first + t for first, draw in draws for t in range(len(draw.sampled))], device, torch.long),
            by_entry(range(len(draws))).long(),
            to_device([logprob for _, draw in draws for logprob in draw.sampled], device),
            by_entry([draw.turns / len(draw.sampled) for _, draw in draws]),
            by_entry([draw.gain for _, draw in draws]),
            by_entry([draw.loss for _, draw in draws]),
            to_device([draw.turns for _, draw in draws], device),
        )

    def importance(self, old: Tensor, mismatch: Mismatch, bound: float | None) -> Tensor | None:
        """Return the importance weight of each entry, 0 for what is left out; None where nothing is weighed.  # [E]

        ``old`` are log pi_old [R, W]; ``bound`` is ``truncate``'s.
        """
        ratio = self.ratios(old)
        if mismatch.kind == "truncate":
            return None if bound is None else ratio.clamp(max=bound)
        if mismatch.kind == "mask":
            return ratio * within(ratio, mismatch.low, mismatch.high)
        if mismatch.kind == "sequence_mask":
            means = self._by_draw(ratio.log()) / self._by_draw(torch.ones_like(ratio))
            return ratio.clamp(max=mismatch.high) * within(means.exp(), mismatch.low, mismatch.high)[self.draw]
        outside = self._by_draw(1.0 - within(ratio, mismatch.low, mismatch.high))
        return ratio * (outside == 0.0).to(ratio.dtype)[self.draw]

    def ratios(self, old: Tensor) -> Tensor:
        """Return p learner / p sampler of each entry, without gradient.  # [R, W] -> [E]"""
        return (old.flatten()[self.element] - self.sampled).detach().exp()

    def outside(self, ratio: Tensor) -> Tensor:
        """Return the turns of each entry whose ratio is outside of ``NEAR``, else 0.  # [E]"""
        return self.turns[self.draw] * (1.0 - within(ratio, *NEAR))

    def _by_draw(self, values: Tensor) -> Tensor:
        """Return the sum over each draw's entries.  # [E] -> [D]"""
        return torch.zeros_like(self.turns).index_add(0, self.draw, values)

    def weighted(self, importance: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Return gains and losses, each draw's times its importance weights, summed over draws.

        ``importance`` is by entry [E]; both sums have the chunk's shape [R, W].
        """
        gains, losses = (
            importance.new_zeros(shape.numel()).index_add(0, self.element, importance * sums).view(shape)
            for sums in (self.gains, self.losses)
        )
        return gains, losses

    def gaps(self, old: Tensor) -> Tensor:
        """Return |log pi_old - log pi_sampler| of each draw's whole reply, times its turns.  # [R, W] -> [D]"""
        differences = old.flatten()[self.element] - self.sampled
        return self.turns * self._by_draw(differences).abs()
