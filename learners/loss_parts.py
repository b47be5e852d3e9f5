"""The loss of one chunk of rows: policy gradient or preferences, entropy, and divergences from other policies.

What differs between ``choice`` and ``free`` rows is in ``learners.loss_forms``. Rows R; places W: a row's
legal replies (``choice``) or its reply's tokens (``free``); tokens T, of which a ``choice`` row has one;
replies M of the whole chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm import LanguageModel
from learners.batching import Pair
from learners.losses import (
    Surrogate,
    outside_band,
    surrogate_loss,
    truncated_importance,
)
from learners.objective import Objective, Sums
from learners.preferences import Preferences


class Models(NamedTuple):
    """The model in training, and those that the objective compares it with."""

    lm: LanguageModel
    magnet: LanguageModel | None
    reference: LanguageModel | None


class Look(NamedTuple):
    """What a model says of a chunk."""

    logprobs: Tensor  # of each legal reply, or of each sampled token, 0 behind the last  # [R, W]
    entropy: Tensor  # [R, T]


class _Fixed(NamedTuple):
    """What stays as it was when the batch began."""

    old: Tensor  # [R, W]
    magnet: Tensor | None  # [R, W]
    reference: Tensor | None  # [R, W]
    importance: Tensor | None  # [R, W]


class Numbers(NamedTuple):
    """A chunk's rows as tensors."""

    draws: Tensor  # turns that drew each place; a free turn is shared by its tokens  # [R, W]
    visits: Tensor  # turns  # [R]
    weight: Tensor  # of each token, summed over turns  # [R]
    gains: Tensor  # [R, W]
    losses: Tensor  # [R, W]
    sampled: Tensor  # [R, W]
    real: Tensor  # 1 at a token, 0 behind the last  # [R, T]


class Part(ABC):
    """One chunk of rows of one form."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        games: Sequence[str],
        means: Mapping[str, float],
        numbers: Numbers,
        pairs: Sequence[Pair],
    ) -> None:
        self._models, self._objective, self._numbers = models, objective, numbers
        device, none = models.lm.device, float("inf")
        self._pairs = Preferences(pairs, device)
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
        preferring = self._objective.surrogate.name == "dpo"
        credited = self._preferred(look, fixed, sums) if preferring else self._rewarded(look, fixed, sums)
        tokens = self._token_terms(look, fixed, sums)
        self._report(look, fixed, sums)
        return credited + (numbers.weight * (tokens * numbers.real).sum(1)).sum()

    def _rewarded(self, look: Look, fixed: _Fixed, sums: Sums) -> Tensor:
        """Return the surrogate of advantages, summed over the chunk."""
        numbers, shares = self._numbers, 1.0 if fixed.importance is None else fixed.importance
        logprobs, old = self._policy_gradient(look.logprobs), self._policy_gradient(fixed.old)
        sums.add("clipped", numbers.draws * _outside(logprobs, old, self._objective.surrogate))
        gains, losses = numbers.gains * shares, numbers.losses * shares
        return surrogate_loss(logprobs, old, gains, losses, self._objective.surrogate).sum()

    def _preferred(self, look: Look, fixed: _Fixed, sums: Sums) -> Tensor:
        """Return the loss of the chunk's pairs, summed."""
        assert fixed.reference is not None, "a batch's loss asks for the reference that dpo needs"
        ratios = look.logprobs - fixed.reference
        return self._pairs.loss(self._by_reply(ratios), self._objective.surrogate.beta, sums)

    def _looked(self) -> tuple[Look, _Fixed]:
        """Return what the model in training says now, and what stays as it was.

        That model comes last: the adapter in force after a pass is the one that is computed again backward.
        """
        if self._fixed is not None:
            return self._look(self._models.lm), self._fixed
        magnet, reference = self._held(self._models.magnet), self._held(self._models.reference)
        look = self._look(self._models.lm)
        self._fixed = self._fix(look, magnet, reference)
        return look, self._fixed

    def _fix(self, look: Look, magnet: Tensor | None, reference: Tensor | None) -> _Fixed:
        old, most = look.logprobs.detach(), self._objective.truncate
        importance = None if most is None else truncated_importance(old, self._numbers.sampled, most)
        return _Fixed(old, None if magnet is None else self._mixed(magnet), reference, importance)

    @torch.no_grad()
    def _held(self, lm: LanguageModel | None) -> Tensor | None:
        """Return the log-probs of a model that is not trained.  # [R, W]"""
        return None if lm is None else self._look(lm).logprobs

    def _token_terms(self, look: Look, fixed: _Fixed, sums: Sums) -> Tensor:
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

    def _report(self, look: Look, fixed: _Fixed, sums: Sums) -> None:
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
    def _look(self, lm: LanguageModel) -> Look: ...

    @abstractmethod
    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        """Return KL(pi | other).  # [R, W], [R, W] -> [R, T]"""

    @abstractmethod
    def _policy_gradient(self, logprobs: Tensor) -> Tensor:
        """Return what the surrogate's ratio is made of.  # [R, W]"""

    @abstractmethod
    def _by_reply(self, logprobs: Tensor) -> Tensor:
        """Return those of whole replies, M of them.  # [R, W] -> [M]"""

    @abstractmethod
    def _mixed(self, magnet: Tensor) -> Tensor:
        """Return the magnet's log-probs, mixed with the uniform policy where that is exact.  # [R, W]"""

    @abstractmethod
    def _gap(self, old: Tensor) -> Tensor:
        """Return |log pi_old - log pi_sampler| of replies, summed over turns."""


def _outside(logprobs: Tensor, old: Tensor, surrogate: Surrogate) -> Tensor:
    """Return 1 where the ratio has left the clip range, else 0."""
    ratio = (logprobs.detach() - old).exp()
    return ((ratio < 1 - surrogate.clip_low) | (ratio > 1 + surrogate.clip_high)).float()
