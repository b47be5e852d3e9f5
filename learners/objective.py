"""A batch's loss, chunk by chunk: policy gradient, entropy, KL to the old policy and to the magnet.

For ``choice`` rows entropy and divergences are exact sums over the legal replies; for ``free`` rows the
entropy is exact at each sampled token and the divergences are k3 estimates. Terms are summed over a
reply's tokens (constant normalisation) and averaged over a game's turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from arena.lm import MASKED, LanguageModel
from learners.batching import ChoiceRow, FreeRow, TrainBatch
from learners.losses import Surrogate, entropy, k3, kl, mix_uniform, surrogate_loss

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
    """The losses of one batch. The first pass over it fixes pi_old and the magnet's log-probs."""

    def __init__(
        self, lm: LanguageModel, magnet: LanguageModel | None, batch: TrainBatch, objective: Objective, budget: int
    ) -> None:
        self._lm, self._magnet = lm, magnet if objective.magnet else None
        self._objective, self._budget = objective, budget
        self._choice = _by_temperature(batch.choice)
        self._free = _by_temperature(batch.free)
        self._fixed: dict[tuple[str, float, tuple[int, ...]], tuple[Tensor, Tensor | None]] = {}

    def chunks(self, sums: Sums) -> Iterator[Tensor]:
        """Yield the loss of one chunk after another, each with a graph of its own; add to ``sums``."""
        for temperature, choice_rows in self._choice.items():
            yield from self._choice_chunks(choice_rows, temperature, sums)
        for temperature, free_rows in self._free.items():
            yield from self._free_chunks(free_rows, temperature, sums)

    def _choice_chunks(self, rows: Sequence[ChoiceRow], temperature: float, sums: Sums) -> Iterator[Tensor]:
        prompts, tries = [row.prompt for row in rows], [self._lm.trie(row.legal) for row in rows]
        for chunk in self._lm.choice_logprobs(prompts, tries, temperature, self._budget):
            key = "choice", temperature, chunk.items
            if key not in self._fixed:
                magnet = None
                if self._magnet is not None:
                    magnet = self._magnet_choice([rows[i] for i in chunk.items], temperature)
                self._fixed[key] = chunk.replies.detach(), magnet
            yield self._choice_loss([rows[i] for i in chunk.items], chunk.replies, *self._fixed[key], sums)

    @torch.no_grad()
    def _magnet_choice(self, rows: Sequence[ChoiceRow], temperature: float) -> Tensor:
        """Return the magnet's log-probs of one chunk's rows, mixed with the uniform policy.  # [R, A]"""
        assert self._magnet is not None
        prompts, tries = [row.prompt for row in rows], [self._lm.trie(row.legal) for row in rows]
        width = max(len(row.legal) for row in rows)
        result = torch.full((len(rows), width), MASKED, device=self._lm.device)
        for chunk in self._magnet.choice_logprobs(prompts, tries, temperature, self._budget):
            result[list(chunk.items), : chunk.replies.shape[1]] = chunk.replies
        absent = _absent([len(row.legal) for row in rows], width, result.device)
        return mix_uniform(result, absent, self._objective.magnet_uniform)

    def _choice_loss(
        self, rows: Sequence[ChoiceRow], logprobs: Tensor, old: Tensor, magnet: Tensor | None, sums: Sums
    ) -> Tensor:
        objective, width = self._objective, logprobs.shape[1]
        counts, gains, losses = (_padded([getattr(row, f) for row in rows], width, logprobs) for f in ("counts", "gains", "losses"))
        visits, weight, bonus = counts.sum(1), *self._row_numbers(rows, logprobs)
        terms = surrogate_loss(logprobs, old, gains, losses, objective.surrogate).sum(1)
        row_entropy, row_kl = entropy(logprobs), kl(logprobs, old)
        terms = terms - visits * bonus * row_entropy
        if objective.kl_old:
            terms = terms + visits * objective.kl_old * row_kl
        if magnet is not None:
            magnet_kl = kl(logprobs, magnet)
            terms = terms + visits * objective.magnet * magnet_kl
            sums.add("magnet_kl", visits * magnet_kl)
        sampled = _padded([[0.0 if p is None else p for p in row.sampled] for row in rows], width, logprobs)
        sums.add("turns", visits)
        sums.add("gap", counts * (old - sampled).abs())
        sums.add("entropy", visits * row_entropy)
        sums.add("kl_old", visits * row_kl)
        sums.add("clipped", counts * self._outside(logprobs, old))
        return (weight * terms).sum()

    def _free_chunks(self, rows: Sequence[FreeRow], temperature: float, sums: Sums) -> Iterator[Tensor]:
        prompts, replies = [row.prompt for row in rows], [row.reply for row in rows]
        for items, logits in self._lm.reply_logits(prompts, replies, self._budget):
            own = [rows[i] for i in items]
            distributions = (logits.float() / temperature).log_softmax(-1)  # [R, T, V]
            tokens = _padded([row.reply for row in own], logits.shape[1], distributions).long()
            logprobs = distributions.gather(2, tokens[:, :, None])[:, :, 0]
            key = "free", temperature, items
            if key not in self._fixed:
                magnet = self._magnet_free(own, temperature) if self._magnet is not None else None
                self._fixed[key] = logprobs.detach(), magnet
            yield self._free_loss(own, distributions, logprobs, *self._fixed[key], sums)

    @torch.no_grad()
    def _magnet_free(self, rows: Sequence[FreeRow], temperature: float) -> Tensor:
        """Return the magnet's log-probs of the sampled tokens.  # [R, T]"""
        assert self._magnet is not None
        longest = max(len(row.reply) for row in rows)
        result = torch.zeros(len(rows), longest, device=self._lm.device)
        chunks = self._magnet.reply_logits([row.prompt for row in rows], [row.reply for row in rows], self._budget)
        for items, logits in chunks:
            distributions = (logits.float() / temperature).log_softmax(-1)
            tokens = _padded([rows[i].reply for i in items], logits.shape[1], distributions).long()
            result[list(items), : logits.shape[1]] = distributions.gather(2, tokens[:, :, None])[:, :, 0]
        return result

    def _free_loss(
        self, rows: Sequence[FreeRow], distributions: Tensor, logprobs: Tensor, old: Tensor, magnet: Tensor | None, sums: Sums
    ) -> Tensor:
        objective, longest = self._objective, logprobs.shape[1]
        real = (~_absent([len(row.reply) for row in rows], longest, logprobs.device)).float()  # [R, T]
        visits, gains, losses = (logprobs.new_tensor([getattr(row, f) for row in rows]) for f in ("count", "gain", "loss"))
        weight, bonus = self._row_numbers(rows, logprobs)
        surrogate = surrogate_loss(logprobs, old, gains[:, None].expand_as(old), losses[:, None].expand_as(old), objective.surrogate)
        row_entropy = (entropy(distributions) * real).sum(1)
        row_kl = (k3(logprobs, old) * real).sum(1)
        terms = (surrogate * real).sum(1) - visits * bonus * row_entropy
        if objective.kl_old:
            terms = terms + visits * objective.kl_old * row_kl
        if magnet is not None:
            magnet_kl = (k3(logprobs, magnet) * real).sum(1)
            terms = terms + visits * objective.magnet * magnet_kl
            sums.add("magnet_kl", visits * magnet_kl)
        sampled = _padded([row.sampled for row in rows], longest, logprobs)
        sums.add("turns", visits)
        sums.add("gap", visits * ((old - sampled) * real).sum(1).abs())
        sums.add("entropy", visits * row_entropy)
        sums.add("kl_old", visits * row_kl)
        sums.add("clipped", visits * (self._outside(logprobs, old) * real).sum(1) / real.sum(1))
        return (weight * terms).sum()

    def _row_numbers(self, rows: Sequence[ChoiceRow] | Sequence[FreeRow], like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weight of a turn and of the entropy bonus, by row.  # [R], [R]"""
        bonus = [self._objective.entropy.get(row.game, 0.0) for row in rows]
        return like.new_tensor([row.weight for row in rows]), like.new_tensor(bonus)

    def _outside(self, logprobs: Tensor, old: Tensor) -> Tensor:
        """Return 1 where the ratio has left the clip range, else 0."""
        ratio, clip = (logprobs.detach() - old).exp(), self._objective.surrogate
        return ((ratio < 1 - clip.clip_low) | (ratio > 1 + clip.clip_high)).float()


def _by_temperature(rows: Sequence[_Row]) -> dict[float, list[_Row]]:
    grouped: dict[float, list[_Row]] = {}
    for row in rows:
        grouped.setdefault(row.temperature, []).append(row)
    return grouped


def _padded(rows: Sequence[Sequence[float]], width: int, like: Tensor) -> Tensor:
    """Return rows of numbers as one tensor, zeros behind each row's own.  # [R, width]"""
    return like.new_tensor([[*row, *[0.0] * (width - len(row))] for row in rows])


def _absent(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return which places lie behind each row's own.  # [R, width]"""
    return torch.arange(width, device=device)[None] >= torch.tensor(lengths, device=device)[:, None]
