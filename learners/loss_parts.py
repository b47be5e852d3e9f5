"""The loss of one chunk of rows: policy gradient, entropy, and divergences from other policies.

For ``choice`` rows entropy and divergences are exact sums over the legal replies; for ``free`` rows the
entropy is exact at each sampled token and the divergences are estimates from the sampled tokens. Rows R;
places W: a row's legal replies (``choice``) or its reply's tokens (``free``); tokens T, of which a
``choice`` row has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.chunks import Chunk
from arena.lm import LanguageModel
from arena.logprobs import Asked
from arena.scoring import Pass
from learners.batching import ChoiceRow, FreeRow
from learners.losses import (
    ESTIMATORS,
    Surrogate,
    entropy,
    kl,
    mix_uniform,
    outside_band,
    over_reply,
    surrogate_loss,
    truncated_importance,
)
from learners.objective import Objective, Sums


class Models(NamedTuple):
    """The model in training, and those that the objective compares it with."""

    lm: LanguageModel
    magnet: LanguageModel | None
    reference: LanguageModel | None


class _Look(NamedTuple):
    """What a model says of a chunk."""

    logprobs: Tensor  # of each legal reply, or of each sampled token, 0 behind the last  # [R, W]
    entropy: Tensor  # [R, T]


class _Fixed(NamedTuple):
    """What stays as it was when the batch began."""

    old: Tensor  # [R, W]
    magnet: Tensor | None  # [R, W]
    reference: Tensor | None  # [R, W]
    importance: Tensor | None  # [R, W]


class _Numbers(NamedTuple):
    """A chunk's rows as tensors."""

    draws: Tensor  # turns that drew each place; a free turn is shared by its tokens  # [R, W]
    visits: Tensor  # turns  # [R]
    weight: Tensor  # of each token, summed over turns  # [R]
    gains: Tensor  # [R, W]
    losses: Tensor  # [R, W]
    sampled: Tensor  # [R, W]
    real: Tensor  # 1 at a token, 0 behind the last  # [R, T]


class _Part(ABC):
    """One chunk of rows of one form."""

    def __init__(
        self, models: Models, objective: Objective, games: Sequence[str], means: Mapping[str, float], numbers: _Numbers
    ) -> None:
        self._models, self._objective, self._numbers = models, objective, numbers
        device, none = models.lm.device, float("inf")
        band = [
            (means[g] * objective.band.low, means[g] * objective.band.high) if g in means else (-none, none)
            for g in games
        ]
        self._low, self._high = torch.tensor(band, device=device).T[:, :, None]  # [R, 1] each
        self._bonus = torch.tensor([objective.entropy.get(game, 0.0) for game in games], device=device)[:, None]
        self._of_game = {game: torch.tensor([g == game for g in games], device=device) for game in dict.fromkeys(games)}
        self._fixed: _Fixed | None = None

    def loss(self, sums: Sums) -> Tensor:
        """Return the weighted loss of this chunk under the current weights; add what is reported to ``sums``.

        The first call fixes pi_old, the magnet's and the reference's log-probs and the importance weights.
        """
        numbers, look, fixed = self._numbers, *self._looked()
        shares = 1.0 if fixed.importance is None else fixed.importance
        logprobs, old = self._policy_gradient(look.logprobs), self._policy_gradient(fixed.old)
        surrogate = surrogate_loss(
            logprobs, old, numbers.gains * shares, numbers.losses * shares, self._objective.surrogate
        ).sum(1)
        tokens = self._token_terms(look, fixed, sums)
        self._report(look, fixed, sums)
        sums.add("clipped", numbers.draws * _outside(logprobs, old, self._objective.surrogate))
        return (surrogate + numbers.weight * (tokens * numbers.real).sum(1)).sum()

    def _looked(self) -> tuple[_Look, _Fixed]:
        """Return what the model in training says now, and what stays as it was.

        That model comes last: the adapter in force after a pass is the one that is computed again backward.
        """
        if self._fixed is not None:
            return self._look(self._models.lm), self._fixed
        magnet, reference = self._held(self._models.magnet), self._held(self._models.reference)
        look = self._look(self._models.lm)
        self._fixed = self._fix(look, magnet, reference)
        return look, self._fixed

    def _fix(self, look: _Look, magnet: Tensor | None, reference: Tensor | None) -> _Fixed:
        old, most = look.logprobs.detach(), self._objective.truncate
        importance = None if most is None else truncated_importance(old, self._numbers.sampled, most)
        return _Fixed(old, None if magnet is None else self._mixed(magnet), reference, importance)

    @torch.no_grad()
    def _held(self, lm: LanguageModel | None) -> Tensor | None:
        """Return the log-probs of a model that is not trained.  # [R, W]"""
        return None if lm is None else self._look(lm).logprobs

    def _token_terms(self, look: _Look, fixed: _Fixed, sums: Sums) -> Tensor:
        """Return all terms but the surrogate, before they are weighed.  # [R, T]"""
        objective, band = self._objective, self._objective.band
        kl_old = self._divergence(look.logprobs, fixed.old, "k2")
        terms = objective.kl_old * kl_old - self._bonus * look.entropy
        self._add(sums, "kl_old", kl_old)
        if fixed.magnet is not None:
            magnet_kl = self._divergence(look.logprobs, fixed.magnet, "k2")
            terms = terms + objective.magnet * magnet_kl
            self._add(sums, "magnet_kl", magnet_kl)
        if fixed.reference is not None:
            reference_kl = self._divergence(look.logprobs, fixed.reference, objective.kl_estimator)
            terms = terms + objective.kl_reference * reference_kl
            self._add(sums, "reference_kl", reference_kl)
        if band.weight:
            outside = outside_band(look.entropy, self._low, self._high)
            terms = terms + band.weight * outside
            self._add(sums, "outside_band", outside)
        return terms

    def _report(self, look: _Look, fixed: _Fixed, sums: Sums) -> None:
        numbers = self._numbers
        sums.add("turns", numbers.visits)
        sums.add("gap", self._gap(fixed.old))
        self._add(sums, "entropy", look.entropy)
        for game, own in self._of_game.items():
            sums.add(f"turns/{game}", numbers.visits[own])
            sums.add(f"tokens/{game}", (numbers.visits * numbers.real.sum(1))[own])
            sums.add(f"entropy/{game}", (numbers.visits * (look.entropy * numbers.real).sum(1))[own])
        if fixed.importance is not None:
            sums.add("importance", numbers.draws * fixed.importance)
            sums.add("truncated", numbers.draws * (fixed.importance == self._objective.truncate))

    def _add(self, sums: Sums, name: str, values: Tensor) -> None:
        """Add values by token [R, T], once for each turn."""
        sums.add(name, self._numbers.visits * (values * self._numbers.real).sum(1))

    @abstractmethod
    def _look(self, lm: LanguageModel) -> _Look: ...

    @abstractmethod
    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        """Return KL(pi | other).  # [R, W], [R, W] -> [R, T]"""

    @abstractmethod
    def _policy_gradient(self, logprobs: Tensor) -> Tensor:
        """Return what the surrogate's ratio is made of.  # [R, W]"""

    @abstractmethod
    def _mixed(self, magnet: Tensor) -> Tensor:
        """Return the magnet's log-probs, mixed with the uniform policy where that is exact.  # [R, W]"""

    @abstractmethod
    def _gap(self, old: Tensor) -> Tensor:
        """Return |log pi_old - log pi_sampler| of replies, summed over turns."""


class ChoicePart(_Part):
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
        numbers = _Numbers(
            draws=counts,
            visits=counts.sum(1),
            weight=torch.tensor([sum(row.weights) for row in own], device=device),
            gains=_padded([row.gains for row in own], width, device),
            losses=_padded([row.losses for row in own], width, device),
            sampled=_padded([[p or 0.0 for p in row.sampled] for row in own], width, device),
            real=torch.ones(len(own), 1, device=device),
        )
        super().__init__(models, objective, [row.game for row in own], means, numbers)

    def _look(self, lm: LanguageModel) -> _Look:
        logprobs = lm.choice_logprobs(self._chunk, self._tries, self._temperature).replies
        return _Look(logprobs, entropy(logprobs)[:, None])

    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        return kl(logprobs, other)[:, None]

    def _policy_gradient(self, logprobs: Tensor) -> Tensor:
        return logprobs

    def _mixed(self, magnet: Tensor) -> Tensor:
        return mix_uniform(magnet, self._absent, self._objective.magnet_uniform)

    def _gap(self, old: Tensor) -> Tensor:
        return self._numbers.draws * (old - self._numbers.sampled).abs()


class FreePart(_Part):
    """One pass of ``free`` rows."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        means: Mapping[str, float],
        replies: Pass,
        rows: Sequence[FreeRow],
        temperature: float,
    ) -> None:
        pays = objective.band.weight or any(objective.entropy.values())
        self._replies, self._asked = replies, Asked(temperature, entropy_gradient=bool(pays))
        own = [rows[i] for i in replies.items]
        lengths, device = [len(row.reply) for row in own], models.lm.device
        width = max(lengths)
        numbers = _Numbers(
            draws=_padded([[row.visits / len(row.reply)] * len(row.reply) for row in own], width, device),
            visits=torch.tensor([row.visits for row in own], device=device),
            weight=torch.tensor([row.weight for row in own], device=device),
            gains=_padded([[row.gain] * len(row.reply) for row in own], width, device),
            losses=_padded([[row.loss] * len(row.reply) for row in own], width, device),
            sampled=_padded([row.sampled for row in own], width, device),
            real=(~_absent(lengths, width, device)).float(),
        )
        super().__init__(models, objective, [row.game for row in own], means, numbers)

    def _look(self, lm: LanguageModel) -> _Look:
        return _Look(*self._replies.scores(lm, self._asked))

    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        return ESTIMATORS[estimator](logprobs, other)

    def _policy_gradient(self, logprobs: Tensor) -> Tensor:
        return over_reply(logprobs, self._numbers.real) if self._objective.surrogate.name == "gspo" else logprobs

    def _mixed(self, magnet: Tensor) -> Tensor:
        return magnet

    def _gap(self, old: Tensor) -> Tensor:
        return self._numbers.visits * (old - self._numbers.sampled).sum(1).abs()


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
