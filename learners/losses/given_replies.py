"""The cross-entropy of given replies under the policy at its playing temperature, chunk by chunk.

L = -(1 / N) sum_i log pi(y_i | prompt_i) over the N tokens of the replies y; a ``choice`` reply counts as one token,
and its pi is the probability among the legal replies. pi is at the role's temperature, and never truncated: replies
that a truncated policy could not give would have no gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from arena.lm.chunks import Chunk
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.packing import Pack
from arena.lm.scoring import Pass
from learners.batching import ChoiceRow, FreeRow
from learners.losses.choice_and_free import padded
from learners.losses.chunk import Models
from learners.losses.term import OwnChunk
from learners.metric_sums import MetricSums


def given_chunks(
    models: Models,
    rows: Sequence[ChoiceRow | FreeRow],
    temperature: float,
    max_tokens: int,
    names: tuple[str, str] = ("loss", "tokens"),
) -> list[GivenLoss]:
    """Return the chunks of rows of one temperature, each of at most ``max_tokens`` tokens.

    ``names`` are the names of their loss and tokens in the sums.
    """
    lm = models.lm
    choice = [row for row in rows if isinstance(row, ChoiceRow)]
    free = [row for row in rows if isinstance(row, FreeRow)]
    chunks: list[GivenLoss] = []
    if choice:
        models.refuse_choice(choice[0].game)
        tries = [lm.trie(row.legal) for row in choice]
        packs = lm.plan_choice_packs([row.prompt for row in choice], tries, max_tokens)
        chunks += [ChoiceGiven(lm, pack, choice, temperature, names) for pack in packs]
    if free:
        passes = models.plan_free([row.prompt for row in free], [row.reply for row in free], max_tokens)
        chunks += [FreeGiven(lm, replies, free, temperature, names) for replies in passes]
    return chunks


class GivenLoss(OwnChunk, ABC):
    """One chunk of given replies."""

    def __init__(
        self,
        lm: LanguageModel,
        drawn: Sequence[Sequence[float]],
        weights: Sequence[Sequence[float]],
        names: tuple[str, str],
    ) -> None:
        """``drawn`` is how often each element was drawn, ``weights`` its weight in the loss."""
        self._names = names
        width = max(map(len, drawn))
        self._lm = lm
        self._drawn = padded(drawn, width, lm.device)  # [R, W]
        self._weights = padded(weights, width, lm.device)  # [R, W]

    def loss(self, sums: MetricSums) -> Tensor:
        """Return the weighted loss of this chunk; add the unweighted one and its number of tokens to ``sums``."""
        logprobs = self._logprobs()
        loss, tokens = self._names
        sums.add(loss, -self._drawn * logprobs)
        sums.add(tokens, self._drawn)
        return -(self._weights * logprobs).sum()

    @abstractmethod
    def _logprobs(self) -> Tensor:
        """Return the log-prob of each element.  # [R, W]"""


class ChoiceGiven(GivenLoss):
    """One chunk of ``choice`` rows; elements are legal replies."""

    def __init__(
        self,
        lm: LanguageModel,
        chunk: Chunk | Pack,
        rows: Sequence[ChoiceRow],
        temperature: float,
        names: tuple[str, str],
    ) -> None:
        self._chunk, self._temperature = chunk, temperature
        self._tries = [lm.trie(row.legal) for row in rows]
        chunk_rows = [rows[i] for i in chunk.items]
        super().__init__(lm, [row.counts for row in chunk_rows], [row.weights for row in chunk_rows], names)

    def _logprobs(self) -> Tensor:
        return self._lm.choice_logprobs(self._chunk, self._tries, self._temperature).replies


class FreeGiven(GivenLoss):
    """One pass of ``free`` rows; elements are the tokens of their replies."""

    def __init__(
        self, lm: LanguageModel, replies: Pass, rows: Sequence[FreeRow], temperature: float, names: tuple[str, str]
    ) -> None:
        self._replies, self._options = replies, ScoreOptions(temperature, entropy_gradient=False)
        pass_rows = [rows[i] for i in replies.items]
        super().__init__(
            lm,
            [[row.visits] * len(row.reply) for row in pass_rows],
            [[row.weight] * len(row.reply) for row in pass_rows],
            names,
        )

    def _logprobs(self) -> Tensor:
        return torch.as_tensor(self._replies.scores(self._lm, self._options).logprobs)
