"""The losses of the two forms of rows, ``choice`` and ``free``.

For ``choice`` rows entropy and divergences are exact sums over the legal replies; for ``free`` rows the
entropy is exact at each sampled token and the divergences are estimates from the sampled tokens. Letters as in
``learners.losses.chunk_loss``; V is the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from arena.lm.chunks import Chunk
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.packing import Pack
from arena.lm.scoring import Pass
from arena.lm.tensors import to_device
from learners.batching import ChoiceRow, FreeRow
from learners.losses.chunk import PolicyOutput, RowTensors
from learners.losses.chunk_loss import ChunkLoss, ChunkPlan
from learners.losses.distributions import entropy, kl, mix_uniform
from learners.losses.draws import DrawTensors
from learners.losses.kl_estimators import ESTIMATORS
from roles.truncation import Truncation


class ChoiceChunkLoss(ChunkLoss):
    """One chunk of ``choice`` rows."""

    free = False

    def __init__(
        self,
        plan: ChunkPlan,
        chunk: Chunk | Pack,
        rows: Sequence[ChoiceRow],
        indices: Sequence[int],
        temperature: float,
    ) -> None:
        """``chunk`` numbers its items within ``rows``, and ``indices`` are the indices of all ``rows`` in the batch."""
        self._chunk, self._temperature = chunk, temperature
        self._tries = [plan.models.lm.trie(row.legal) for row in rows]
        chunk_rows = [rows[i] for i in chunk.items]
        lengths, device = [len(row.legal) for row in chunk_rows], plan.models.lm.device
        width = max(lengths)
        self._padding = _padding(lengths, width, device)
        counts = padded([row.counts for row in chunk_rows], width, device)
        tensors = RowTensors(
            draws=counts,
            visits=counts.sum(1),
            weight=to_device([sum(row.weights) for row in chunk_rows], device),
            gains=padded([row.gains for row in chunk_rows], width, device),
            losses=padded([row.losses for row in chunk_rows], width, device),
            real=torch.ones(len(chunk_rows), 1, device=device),
            by_draw=DrawTensors.of_rows(chunk_rows, width, device),
        )
        super().__init__(plan, chunk_rows, [indices[i] for i in chunk.items], tensors)

    def _forward(self, lm: LanguageModel) -> PolicyOutput:
        logprobs = lm.choice_logprobs(self._chunk, self._tries, self._temperature).replies
        return PolicyOutput(logprobs, entropy(logprobs)[:, None])

    def _inputs(self) -> object:
        chunk = self._chunk
        texts = chunk.texts if isinstance(chunk, Pack) else (chunk.prefix, chunk.suffixes)
        return texts, tuple(self._tries[i].tokens for i in chunk.items), self._temperature

    def divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        """See ``RowChunk``."""
        return kl(logprobs, other)[:, None]

    def by_reply(self, logprobs: Tensor) -> Tensor:
        """See ``RowChunk``."""
        return logprobs.flatten()

    def reply_index(self, row: int, reply: int) -> int:
        """See ``RowChunk``."""
        return row * self._padding.shape[1] + reply

    def _mix_magnet(self, magnet: Tensor) -> Tensor:
        return mix_uniform(magnet, self._padding, self._objective.magnet_uniform)


class FreeChunkLoss(ChunkLoss):
    """One pass of ``free`` rows; ``rows`` are the batch's."""

    free = True

    def __init__(
        self, plan: ChunkPlan, replies: Pass, rows: Sequence[FreeRow], sampling: tuple[float, Truncation]
    ) -> None:
        objective = plan.objective
        needs_entropy_gradient = objective.band.on or any(objective.entropy.values())
        temperature, truncation = sampling
        self._replies = replies
        self._options = ScoreOptions(temperature, bool(needs_entropy_gradient), truncation)
        chunk_rows = [rows[i] for i in replies.items]
        lengths, device = [len(row.reply) for row in chunk_rows], plan.models.lm.device
        width = max(lengths)
        tensors = RowTensors(
            draws=padded([[row.visits / len(row.reply)] * len(row.reply) for row in chunk_rows], width, device),
            visits=to_device([row.visits for row in chunk_rows], device),
            weight=to_device([row.weight for row in chunk_rows], device),
            gains=padded([[row.gain] * len(row.reply) for row in chunk_rows], width, device),
            losses=padded([[row.loss] * len(row.reply) for row in chunk_rows], width, device),
            real=(~_padding(lengths, width, device)).float(),
            by_draw=DrawTensors.of_rows(chunk_rows, width, device),
        )
        super().__init__(plan, chunk_rows, list(replies.items), tensors)

    def _forward(self, lm: LanguageModel) -> PolicyOutput:
        return PolicyOutput(*self._replies.scores(lm, self._options))

    def _inputs(self) -> object:
        return None  # the next batch has other replies

    def divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        """See ``RowChunk``."""
        estimate: Tensor = ESTIMATORS[estimator].make(logprobs, other)
        return estimate

    def by_reply(self, logprobs: Tensor) -> Tensor:
        """See ``RowChunk``."""
        return logprobs.sum(1)

    def reply_index(self, row: int, reply: int) -> int:
        """See ``RowChunk``."""
        return row

    def _mix_magnet(self, magnet: Tensor) -> Tensor:
        return magnet


def padded(rows: Sequence[Sequence[float]], width: int, device: torch.device) -> Tensor:
    """Return rows of numbers as one tensor, padded with zeros.  # [R, width]"""
    return to_device([[*row, *[0.0] * (width - len(row))] for row in rows], device)


def _padding(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return where the padding of each row is.  # [R, width]"""
    return torch.arange(width, device=device)[None] >= to_device(lengths, device)[:, None]
