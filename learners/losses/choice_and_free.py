"""The losses of the two forms of rows.

For ``choice`` rows entropy and divergences are exact sums over the legal replies; for ``free`` rows the
entropy is exact at each sampled token and the divergences are estimates from the sampled tokens. Letters as in
``learners.losses.chunk_loss``; V is the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from arena.lm.chunks import Chunk
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.packing import Pack
from arena.lm.scoring import Pass
from arena.lm.tensors import to_device
from learners.batching import ChoiceRow, FreeRow, Pair
from learners.losses.chunk_loss import ChunkLoss, Models, PolicyOutput, RowTensors
from learners.losses.draws import DrawTensors
from learners.losses.objective import Objective
from learners.losses.surrogates import ESTIMATORS, entropy, kl, mix_uniform, reply_means
from learners.losses.teacher import DIVERGENCES, sampled_divergence
from roles.truncation import Truncation


class ChoiceChunkLoss(ChunkLoss):
    """One chunk of ``choice`` rows."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        means: Mapping[str, float],
        chunk: Chunk | Pack,
        rows: Sequence[ChoiceRow],
        temperature: float,
    ) -> None:
        self._chunk, self._temperature = chunk, temperature
        self._tries = [models.lm.trie(row.legal) for row in rows]
        chunk_rows = [rows[i] for i in chunk.items]
        lengths, device = [len(row.legal) for row in chunk_rows], models.lm.device
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
        pairs = [
            pair._replace(chosen=index * width + pair.chosen, rejected=index * width + pair.rejected)
            for index, row in enumerate(chunk_rows)
            for pair in row.pairs
        ]
        super().__init__(models, objective, chunk_rows, means, tensors, pairs)

    def _forward(self, lm: LanguageModel) -> PolicyOutput:
        logprobs = lm.choice_logprobs(self._chunk, self._tries, self._temperature).replies
        return PolicyOutput(logprobs, entropy(logprobs)[:, None])

    def _inputs(self) -> object:
        chunk = self._chunk
        texts = chunk.texts if isinstance(chunk, Pack) else (chunk.prefix, chunk.suffixes)
        return texts, tuple(self._tries[i].tokens for i in chunk.items), self._temperature

    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        return kl(logprobs, other)[:, None]

    def _from_teacher(self, logprobs: Tensor, said: Tensor, old: Tensor) -> Tensor:
        return DIVERGENCES[self._objective.divergence].exact(logprobs, said)[:, None]

    def _ratio_logprobs(self, logprobs: Tensor) -> Tensor:
        return logprobs

    def _by_reply(self, logprobs: Tensor) -> Tensor:
        return logprobs.flatten()

    def reply_index(self, row: int, reply: int) -> int:
        """See ``ChunkLoss``."""
        return row * self._padding.shape[1] + reply

    def _mix_magnet(self, magnet: Tensor) -> Tensor:
        return mix_uniform(magnet, self._padding, self._objective.magnet_uniform)


class FreeChunkLoss(ChunkLoss):
    """One pass of ``free`` rows, and the pairs among them; ``rows`` are those of all passes."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        means: Mapping[str, float],
        replies: Pass,
        rows: Sequence[FreeRow],
        sampling: tuple[float, Truncation],
        pairs: Mapping[int, Sequence[Pair]],
    ) -> None:
        needs_entropy_gradient = objective.band.weight or any(objective.entropy.values())
        temperature, truncation = sampling
        self._replies = replies
        self._options = ScoreOptions(temperature, bool(needs_entropy_gradient), truncation)
        chunk_rows = [rows[i] for i in replies.items]
        index_in_chunk = {row_index: index for index, row_index in enumerate(replies.items)}
        chunk_pairs = [
            pair._replace(chosen=index_in_chunk[pair.chosen], rejected=index_in_chunk[pair.rejected])
            for row_index in index_in_chunk
            for pair in pairs.get(row_index, ())
        ]
        lengths, device = [len(row.reply) for row in chunk_rows], models.lm.device
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
        super().__init__(models, objective, chunk_rows, means, tensors, chunk_pairs)

    def _forward(self, lm: LanguageModel) -> PolicyOutput:
        return PolicyOutput(*self._replies.scores(lm, self._options))

    def _inputs(self) -> object:
        return None  # the next batch has other replies

    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        return ESTIMATORS[estimator](logprobs, other)

    def _from_teacher(self, logprobs: Tensor, said: Tensor, old: Tensor) -> Tensor:
        return sampled_divergence(DIVERGENCES[self._objective.divergence], logprobs, said, old)

    def _ratio_logprobs(self, logprobs: Tensor) -> Tensor:
        return reply_means(logprobs, self._tensors.real) if self._objective.surrogate.name == "gspo" else logprobs

    def _by_reply(self, logprobs: Tensor) -> Tensor:
        return logprobs.sum(1)

    def reply_index(self, row: int, reply: int) -> int:
        """See ``ChunkLoss``."""
        return row

    def _mix_magnet(self, magnet: Tensor) -> Tensor:
        return magnet


def padded(rows: Sequence[Sequence[float]], width: int, device: torch.device) -> Tensor:
    """Return rows of numbers as one tensor, padded with zeros.  # [R, width]"""
    return to_device([[*row, *[0.0] * (width - len(row))] for row in rows], device)


def _padding(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return where the padding of each row is.  # [R, width]"""
    return torch.arange(width, device=device)[None] >= to_device(lengths, device)[:, None]
