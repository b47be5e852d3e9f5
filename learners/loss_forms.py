"""The two forms of a chunk's rows.

For ``choice`` rows entropy and divergences are exact sums over the legal replies; for ``free`` rows the
entropy is exact at each sampled token and the divergences are estimates from the sampled tokens. Letters as in
``learners.loss_parts``; V is the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from arena.chunks import Chunk
from arena.lm import LanguageModel
from arena.logprobs import Asked
from arena.scoring import Pass
from learners.batching import ChoiceRow, FreeRow, Pair
from learners.loss_parts import Look, Models, Numbers, Part
from learners.losses import ESTIMATORS, entropy, kl, mix_uniform, over_reply
from learners.objective import Objective


class ChoicePart(Part):
    """One chunk of ``choice`` rows."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        means: Mapping[str, float],
        chunk: Chunk,
        rows: Sequence[ChoiceRow],
        temperature: float,
    ) -> None:
        self._chunk, self._temperature = chunk, temperature
        self._tries = [models.lm.trie(row.legal) for row in rows]
        own = [rows[i] for i in chunk.items]
        lengths, device = [len(row.legal) for row in own], models.lm.device
        width = max(lengths)
        self._absent = _absent(lengths, width, device)
        counts = _padded([row.counts for row in own], width, device)
        numbers = Numbers(
            draws=counts,
            visits=counts.sum(1),
            weight=torch.tensor([sum(row.weights) for row in own], device=device),
            gains=_padded([row.gains for row in own], width, device),
            losses=_padded([row.losses for row in own], width, device),
            sampled=_padded([[p or 0.0 for p in row.sampled] for row in own], width, device),
            real=torch.ones(len(own), 1, device=device),
        )
        pairs = [
            pair._replace(chosen=place * width + pair.chosen, rejected=place * width + pair.rejected)
            for place, row in enumerate(own)
            for pair in row.pairs
        ]
        super().__init__(models, objective, [row.game for row in own], means, numbers, pairs)

    def _look(self, lm: LanguageModel) -> Look:
        logprobs = lm.choice_logprobs(self._chunk, self._tries, self._temperature).replies
        return Look(logprobs, entropy(logprobs)[:, None])

    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        return kl(logprobs, other)[:, None]

    def _policy_gradient(self, logprobs: Tensor) -> Tensor:
        return logprobs

    def _by_reply(self, logprobs: Tensor) -> Tensor:
        return logprobs.flatten()

    def _mixed(self, magnet: Tensor) -> Tensor:
        return mix_uniform(magnet, self._absent, self._objective.magnet_uniform)

    def _gap(self, old: Tensor) -> Tensor:
        return self._numbers.draws * (old - self._numbers.sampled).abs()


class FreePart(Part):
    """One pass of ``free`` rows, and the pairs among them; ``rows`` are those of the whole plan."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        means: Mapping[str, float],
        replies: Pass,
        rows: Sequence[FreeRow],
        temperature: float,
        pairs: Mapping[int, Sequence[Pair]],
    ) -> None:
        pays = objective.band.weight or any(objective.entropy.values())
        self._replies, self._asked = replies, Asked(temperature, entropy_gradient=bool(pays))
        own = [rows[i] for i in replies.items]
        places = {number: place for place, number in enumerate(replies.items)}
        paired = [
            pair._replace(chosen=places[pair.chosen], rejected=places[pair.rejected])
            for number in places
            for pair in pairs.get(number, ())
        ]
        lengths, device = [len(row.reply) for row in own], models.lm.device
        width = max(lengths)
        numbers = Numbers(
            draws=_padded([[row.visits / len(row.reply)] * len(row.reply) for row in own], width, device),
            visits=torch.tensor([row.visits for row in own], device=device),
            weight=torch.tensor([row.weight for row in own], device=device),
            gains=_padded([[row.gain] * len(row.reply) for row in own], width, device),
            losses=_padded([[row.loss] * len(row.reply) for row in own], width, device),
            sampled=_padded([row.sampled for row in own], width, device),
            real=(~_absent(lengths, width, device)).float(),
        )
        super().__init__(models, objective, [row.game for row in own], means, numbers, paired)

    def _look(self, lm: LanguageModel) -> Look:
        return Look(*self._replies.scores(lm, self._asked))

    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        return ESTIMATORS[estimator](logprobs, other)

    def _policy_gradient(self, logprobs: Tensor) -> Tensor:
        return over_reply(logprobs, self._numbers.real) if self._objective.surrogate.name == "gspo" else logprobs

    def _by_reply(self, logprobs: Tensor) -> Tensor:
        return logprobs.sum(1)

    def _mixed(self, magnet: Tensor) -> Tensor:
        return magnet

    def _gap(self, old: Tensor) -> Tensor:
        return self._numbers.visits * (old - self._numbers.sampled).sum(1).abs()


def _padded(rows: Sequence[Sequence[float]], width: int, device: torch.device) -> Tensor:
    """Return rows of numbers as one tensor, zeros behind each row's own.  # [R, width]"""
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], device=device)


def _absent(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return which places lie behind each row's own.  # [R, width]"""
    return torch.arange(width, device=device)[None] >= torch.tensor(lengths, device=device)[:, None]
