"""A batch's loss, chunk by chunk: policy gradient, entropy, KL to the old policy and to the magnet.

For ``choice`` rows entropy and divergences are exact sums over the legal replies; for ``free`` rows the
entropy is exact at each sampled token and the divergences are k2 estimates. Terms are summed over a
reply's tokens (constant normalisation) and averaged over a game's turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from arena.chunks import Chunk
from arena.lm import LanguageModel
from learners.batching import ChoiceRow, FreeRow, TrainBatch
from learners.losses import Surrogate, entropy, k2, kl, mix_uniform, surrogate_loss

_Row = TypeVar("_Row", ChoiceRow, FreeRow)


class Objective(NamedTuple):
    """What an update minimises; weights of divergences and entropy are per turn, in nats."""

    surrogate: Surrogate
    entropy: Mapping[str, float]  # weight of the entropy bonus by game
    kl_old: float = 0.0
    magnet: float = 0.0
    magnet_uniform: float = 0.0


class Sums:
    """Sums over a batch's turns, for the means that are reported."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}

    def add(self, name: str, values: Tensor) -> None:
        """Add the sum of ``values`` to what ``name`` has."""
        self.totals[name] = self.totals.get(name, 0.0) + float(values.detach().sum())

    def mean(self, name: str) -> float:
        """Return the mean over turns."""
        return self.totals.get(name, 0.0) / max(self.totals.get("turns", 0.0), 1.0)


class BatchLoss:
    """The losses of one batch, cut into minibatches for the inner steps.

    A game with many different prompts is spread over up to ``parts`` minibatches of at least
    ``minibatch`` rows, each weighing for the whole; a game with few is in every one.
    """

    def __init__(
        self,
        lm: LanguageModel,
        magnet: LanguageModel | None,
        batch: TrainBatch,
        objective: Objective,
        *,
        budget: int,
        parts: int = 1,
        minibatch: int = 1,
    ) -> None:
        models = _Models(lm, magnet if objective.magnet else None)
        self._parts: dict[tuple[int, int], list[_ChoicePart | _FreePart]] = {}  # by (minibatch, of how many)
        for (key, temperature), rows in _minibatches(batch.choice, parts, minibatch).items():
            tries = [lm.trie(row.legal) for row in rows]
            chunks = lm.plan_choice([row.prompt for row in rows], tries, budget)
            self._parts.setdefault(key, []).extend(
                _ChoicePart(models, objective, chunk, rows, temperature) for chunk in chunks
            )
        for (key, temperature), replies in _minibatches(batch.free, parts, minibatch).items():
            chunks = lm.plan([row.prompt for row in replies], [(row.reply,) for row in replies], budget)
            self._parts.setdefault(key, []).extend(
                _FreePart(models, objective, chunk, replies, temperature) for chunk in chunks
            )

    @torch.no_grad()
    def fix_old(self, sums: Sums) -> None:
        """Take the current weights' log-probs as pi_old, and add the whole batch's loss to ``sums``."""
        for chunks in self._parts.values():
            for chunk in chunks:
                sums.add("loss", chunk.loss(sums))

    def losses(self, step: int, sums: Sums) -> Iterator[Tensor]:
        """Yield inner step ``step``'s loss chunk by chunk, each with a graph of its own; add to ``sums``."""
        for (number, parts), chunks in self._parts.items():
            if step % parts == number:
                for chunk in chunks:
                    yield chunk.loss(sums) * parts


class _Models(NamedTuple):
    lm: LanguageModel
    magnet: LanguageModel | None


class _ChoicePart:
    """One chunk of ``choice`` rows, as tensors. Rows R, most legal replies A."""

    def __init__(
        self, models: _Models, objective: Objective, chunk: Chunk, rows: Sequence[ChoiceRow], temperature: float
    ) -> None:
        self._models, self._objective, self._chunk, self._temperature = models, objective, chunk, temperature
        self._tries = [models.lm.trie(row.legal) for row in rows]
        own = [rows[i] for i in chunk.items]
        lengths, device = [len(row.legal) for row in own], models.lm.device
        width = max(lengths)
        self._counts = _padded([row.counts for row in own], width, device)  # [R, A]
        self._gains = _padded([row.gains for row in own], width, device)
        self._losses = _padded([row.losses for row in own], width, device)
        self._sampled = _padded([[p or 0.0 for p in row.sampled] for row in own], width, device)
        self._absent = _absent(lengths, width, device)
        self._visits = self._counts.sum(1)  # [R]
        self._weight, self._bonus = _row_numbers(own, objective, device)
        self._old: Tensor | None = None
        self._magnet: Tensor | None = None

    def loss(self, sums: Sums) -> Tensor:
        """Return the weighted loss of this chunk under the current weights."""
        objective, visits = self._objective, self._visits
        logprobs = self._models.lm.choice_logprobs(self._chunk, self._tries, self._temperature).replies
        if self._old is None:
            self._old = logprobs.detach()
            self._magnet = self._magnet_logprobs()
        row_entropy, row_kl = entropy(logprobs), kl(logprobs, self._old)
        terms = surrogate_loss(logprobs, self._old, self._gains, self._losses, objective.surrogate).sum(1)
        terms = terms + visits * (objective.kl_old * row_kl - self._bonus * row_entropy)
        if self._magnet is not None:
            magnet_kl = kl(logprobs, self._magnet)
            terms = terms + visits * objective.magnet * magnet_kl
            sums.add("magnet_kl", visits * magnet_kl)
        sums.add("turns", visits)
        sums.add("gap", self._counts * (self._old - self._sampled).abs())
        sums.add("entropy", visits * row_entropy)
        sums.add("kl_old", visits * row_kl)
        sums.add("clipped", self._counts * _outside(logprobs, self._old, objective.surrogate))
        return (self._weight * terms).sum()

    def _magnet_logprobs(self) -> Tensor | None:
        """Return the magnet's log-probs, mixed with the uniform policy.  # [R, A]"""
        if self._models.magnet is None:
            return None
        logprobs = self._models.magnet.choice_logprobs(self._chunk, self._tries, self._temperature).replies
        return mix_uniform(logprobs, self._absent, self._objective.magnet_uniform)


class _FreePart:
    """One chunk of ``free`` rows, as tensors. Rows R, longest reply T."""

    def __init__(
        self, models: _Models, objective: Objective, chunk: Chunk, rows: Sequence[FreeRow], temperature: float
    ) -> None:
        self._models, self._objective, self._chunk, self._temperature = models, objective, chunk, temperature
        self._replies = [row.reply for row in rows]
        own = [rows[i] for i in chunk.items]
        lengths, device = [len(row.reply) for row in own], models.lm.device
        width = max(lengths)
        self._tokens = _padded([row.reply for row in own], width, device).long()  # [R, T]
        self._sampled = _padded([row.sampled for row in own], width, device)
        self._real = (~_absent(lengths, width, device)).float()
        self._visits = torch.tensor([row.visits for row in own], device=device)  # [R]
        self._gains = torch.tensor([[row.gain] * width for row in own], device=device)  # [R, T]
        self._losses = torch.tensor([[row.loss] * width for row in own], device=device)
        self._weight, self._bonus = _row_numbers(own, objective, device)
        self._old: Tensor | None = None
        self._magnet: Tensor | None = None

    def loss(self, sums: Sums) -> Tensor:
        """Return the weighted loss of this chunk under the current weights."""
        objective, visits, real = self._objective, self._visits, self._real
        distributions, logprobs = self._logprobs(self._models.lm)
        if self._old is None:
            self._old = logprobs.detach()
            self._magnet = self._logprobs(self._models.magnet)[1] if self._models.magnet else None
        row_entropy, row_kl = (entropy(distributions) * real).sum(1), (k2(logprobs, self._old) * real).sum(1)
        surrogate = surrogate_loss(logprobs, self._old, self._gains, self._losses, objective.surrogate)
        terms = (surrogate * real).sum(1) + visits * (objective.kl_old * row_kl - self._bonus * row_entropy)
        if self._magnet is not None:
            magnet_kl = (k2(logprobs, self._magnet) * real).sum(1)
            terms = terms + visits * objective.magnet * magnet_kl
            sums.add("magnet_kl", visits * magnet_kl)
        outside = _outside(logprobs, self._old, objective.surrogate) * real
        sums.add("turns", visits)
        sums.add("gap", visits * ((self._old - self._sampled) * real).sum(1).abs())
        sums.add("entropy", visits * row_entropy)
        sums.add("kl_old", visits * row_kl)
        sums.add("clipped", visits * outside.sum(1) / real.sum(1))
        return (self._weight * terms).sum()

    def _logprobs(self, lm: LanguageModel) -> tuple[Tensor, Tensor]:
        """Return all tokens' log-probs [R, T, V] and those of the sampled tokens [R, T]."""
        logits = lm.reply_logits(self._chunk, self._replies)
        distributions = (logits.float() / self._temperature).log_softmax(-1)
        return distributions, distributions.gather(2, self._tokens[:, :, None])[:, :, 0]


def _minibatches(rows: Sequence[_Row], parts: int, minibatch: int) -> dict[tuple[tuple[int, int], float], list[_Row]]:
    """Return rows by ((minibatch, of how many), temperature); a game's rows are dealt out in turn."""
    by_game: dict[str, list[_Row]] = {}
    for row in rows:
        by_game.setdefault(row.game, []).append(row)
    dealt: dict[tuple[tuple[int, int], float], list[_Row]] = {}
    for own in by_game.values():
        count = min(parts, max(1, len(own) // minibatch))
        for number, row in enumerate(own):
            dealt.setdefault(((number % count, count), row.temperature), []).append(row)
    return dealt


def _row_numbers(rows: Sequence[_Row], objective: Objective, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the weight of a turn and of the entropy bonus, by row.  # [R], [R]"""
    bonus = [objective.entropy.get(row.game, 0.0) for row in rows]
    return torch.tensor([row.weight for row in rows], device=device), torch.tensor(bonus, device=device)


def _outside(logprobs: Tensor, old: Tensor, surrogate: Surrogate) -> Tensor:
    """Return 1 where the ratio has left the clip range, else 0."""
    ratio = (logprobs.detach() - old).exp()
    return ((ratio < 1 - surrogate.clip_low) | (ratio > 1 + surrogate.clip_high)).float()


def _padded(rows: Sequence[Sequence[float]], width: int, device: torch.device) -> Tensor:
    """Return rows of numbers as one tensor, zeros behind each row's own.  # [R, width]"""
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], device=device)


def _absent(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return which places lie behind each row's own.  # [R, width]"""
    return torch.arange(width, device=device)[None] >= torch.tensor(lengths, device=device)[:, None]
