"""The loss of one chunk of rows: policy gradient, preferences or scores, entropy, and divergences from other policies.

What differs between ``choice`` and ``free`` rows is in ``learners.losses.choice_and_free``. Dimensions: rows R;
elements W, a row's legal replies (``choice``) or its reply's tokens (``free``); tokens T, of which a ``choice`` row has
one; replies M of the whole chunk. Rows are padded with zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from arena.lm.language_model import LanguageModel
from arena.lm.tensors import to_device
from learners.batching import ChoiceRow, FreeRow, Pair
from learners.losses.draws import DrawTensors
from learners.losses.frozen_results import FrozenResults
from learners.losses.objective import Objective
from learners.losses.preferences import PreferencePairs
from learners.losses.surrogates import (
    Surrogate,
    outside_band,
    surrogate_loss,
    truncated_importance,
)
from learners.losses.teacher import TaughtTensors
from learners.metric_sums import MetricSums


class Models(NamedTuple):
    """The model in training, and the frozen ones that the objective compares it with."""

    lm: LanguageModel
    magnet: LanguageModel | None
    reference: LanguageModel | None
    results: FrozenResults | None = None  # of the frozen ones in earlier updates; None: each pass is run


class PolicyOutput(NamedTuple):
    """A model's output for a chunk."""

    logprobs: Tensor  # of each legal reply, or of each sampled token  # [R, W]
    entropy: Tensor  # [R, T]


class _Fixed(NamedTuple):
    """What the first pass over a batch fixes for its inner steps."""

    old: Tensor  # [R, W]
    magnet: Tensor | None  # [R, W]
    reference: Tensor | None  # [R, W]
    importance: Tensor | None  # [E]
    gains: Tensor  # weighted sums of positive advantages, with the importance weights  # [R, W]
    losses: Tensor  # weighted sums of negative advantages, with the importance weights  # [R, W]


class RowTensors(NamedTuple):
    """A chunk's rows as tensors."""

    draws: Tensor  # turns that drew each element; each of n tokens of a free reply counts 1 / n  # [R, W]
    visits: Tensor  # turns  # [R]
    weight: Tensor  # of each token, summed over turns  # [R]
    gains: Tensor  # weighted sums of positive advantages  # [R, W]
    losses: Tensor  # weighted sums of negative advantages  # [R, W]
    real: Tensor  # 1 at tokens, 0 at padding  # [R, T]
    by_draw: DrawTensors


class _Coefficients(NamedTuple):
    """What an objective of whole trajectories makes of a chunk under the current weights."""

    by_reply: Tensor  # the slope of the loss along each reply's log-prob  # [M]
    loss: float  # the chunk's share of the loss
    sums: Mapping[str, float]  # its shares of what is reported


class ChunkLoss(ABC):
    """One chunk of rows of one form."""

    def __init__(
        self,
        models: Models,
        objective: Objective,
        rows: Sequence[ChoiceRow | FreeRow],
        means: Mapping[str, float],
        tensors: RowTensors,
        pairs: Sequence[Pair],
    ) -> None:
        self._models, self._objective, self._tensors, self.rows = models, objective, tensors, rows
        device, infinity, games = models.lm.device, float("inf"), [row.game for row in rows]
        self._pairs = PreferencePairs(pairs, device)
        band = [
            (means[g] * objective.band.low, means[g] * objective.band.high) if g in means else (-infinity, infinity)
            for g in games
        ]
        self._low, self._high = to_device(band, device).T[:, :, None]  # [R, 1] each
        bonus = [objective.entropy.get(row.root_game, 0.0) for row in rows]
        self._bonus = to_device(bonus, device)[:, None]
        self._of_game = {  # by index: a GPU would have to be waited for to count the rows of a mask
            game: to_device([i for i, g in enumerate(games) if g == game], device) for game in dict.fromkeys(games)
        }
        self._taught = TaughtTensors.of_rows(rows, tensors.gains.shape[1], device) if objective.distill else None
        self._fixed: _Fixed | None = None
        self._coefficients: _Coefficients | None = None

    @torch.no_grad()
    def log_ratios(self) -> tuple[Tensor, Tensor]:
        """Return log pi - log reference of each reply [M], and of each row KL(pi | reference), of its choice [R]."""
        output, fixed = self._outputs()
        assert fixed.reference is not None, "BatchLoss refuses such an objective without a reference"
        divergence = self._divergence(output.logprobs, fixed.reference, "k1").sum(1)
        return self._by_reply(output.logprobs - fixed.reference), divergence

    def set_coefficients(self, by_reply: Sequence[float], loss: float, sums: Mapping[str, float]) -> None:
        """Set the slopes of the loss along the replies' log-probs, this chunk's share of it, and what is reported."""
        self._coefficients = _Coefficients(to_device(by_reply, self._models.lm.device), loss, sums)

    def loss(self, sums: MetricSums) -> Tensor:
        """Return the weighted loss of this chunk under the current weights; add its metrics to ``sums``.

        The first call fixes pi_old, the magnet's and the reference's log-probs and the importance weights.
        """
        tensors, output, fixed = self._tensors, *self._outputs()
        if self._objective.surrogate.judges_trajectories:
            credited = self._trajectory_loss(output, sums)
        elif self._objective.surrogate.name == "dpo":
            credited = self._preference_loss(output, fixed, sums)
        else:
            credited = self._advantage_loss(output, fixed, sums)
        tokens = self._token_terms(output, fixed, sums)
        self._report(output, fixed, sums)
        loss = credited + (tensors.weight * (tokens * tensors.real).sum(1)).sum()
        return loss if self._taught is None else loss + self._teacher_loss(self._taught, output, fixed, sums)

    def _teacher_loss(self, taught: TaughtTensors, output: PolicyOutput, fixed: _Fixed, sums: MetricSums) -> Tensor:
        """Return the weighted divergence from what a teacher says, summed over the chunk."""
        logprobs, old = output.logprobs[taught.row], fixed.old[taught.row]
        taught.report(self._divergence(logprobs.detach(), taught.said, "k1"), sums)
        return self._objective.distill * taught.loss(self._from_teacher(logprobs, taught.said, old))

    def _advantage_loss(self, output: PolicyOutput, fixed: _Fixed, sums: MetricSums) -> Tensor:
        """Return the surrogate loss of the advantages, summed over the chunk."""
        logprobs, old = self._ratio_logprobs(output.logprobs), self._ratio_logprobs(fixed.old)
        sums.add("clipped", self._tensors.draws * _outside_clip(logprobs, old, self._objective.surrogate))
        return surrogate_loss(logprobs, old, fixed.gains, fixed.losses, self._objective.surrogate).sum()

    def _preference_loss(self, output: PolicyOutput, fixed: _Fixed, sums: MetricSums) -> Tensor:
        """Return the loss of the chunk's preference pairs, summed."""
        assert fixed.reference is not None, "BatchLoss refuses dpo without a reference"
        ratios = output.logprobs - fixed.reference
        return self._pairs.loss(self._by_reply(ratios), self._objective.surrogate.beta, sums)

    def _trajectory_loss(self, output: PolicyOutput, sums: MetricSums) -> Tensor:
        """Return the chunk's share of the loss of whole trajectories, with the whole gradient; 0 before scores."""
        found, by_reply = self._coefficients, self._by_reply(output.logprobs)
        if found is None:
            return 0.0 * by_reply.sum()
        for name, number in found.sums.items():
            sums.add(name, by_reply.new_tensor(number))
        return found.loss + (found.by_reply * (by_reply - by_reply.detach())).sum()

    def _outputs(self) -> tuple[PolicyOutput, _Fixed]:
        """Return the output of the model in training, and the fixed log-probs.

        That model runs last: the backward pass recomputes activations with the adapter that is active then.
        """
        if self._fixed is not None:
            return self._forward(self._models.lm), self._fixed
        magnet, reference = self._frozen_logprobs("magnet"), self._frozen_logprobs("reference")
        output = self._forward(self._models.lm)
        self._fixed = self._fix_logprobs(output, magnet, reference)
        return output, self._fixed

    def _fix_logprobs(self, output: PolicyOutput, magnet: Tensor | None, reference: Tensor | None) -> _Fixed:
        old, bound, tensors = output.logprobs.detach(), self._objective.truncate, self._tensors
        magnet = None if magnet is None else self._mix_magnet(magnet)
        if bound is None:
            return _Fixed(old, magnet, reference, None, tensors.gains, tensors.losses)
        by_draw = tensors.by_draw
        importance = truncated_importance(old.flatten()[by_draw.element], by_draw.sampled, bound)
        return _Fixed(old, magnet, reference, importance, *by_draw.weighted(importance, old.shape))

    @torch.no_grad()
    def _frozen_logprobs(self, which: Literal["magnet", "reference"]) -> Tensor | None:
        """Return the log-probs of a model that is not trained.  # [R, W]"""
        lm: LanguageModel | None = getattr(self._models, which)
        if lm is None:
            return None
        results, inputs = self._models.results, self._inputs()
        if results is None or inputs is None:
            return self._forward(lm).logprobs
        return results.get((which, inputs), lambda: self._forward(lm).logprobs)

    def _token_terms(self, output: PolicyOutput, fixed: _Fixed, sums: MetricSums) -> Tensor:
        """Return all terms but the surrogate, unweighted.  # [R, T]"""
        objective, band = self._objective, self._objective.band
        kl_old = self._divergence(output.logprobs, fixed.old, "k2")
        terms = objective.kl_old * kl_old - self._bonus * output.entropy
        self._add_by_token(sums, "kl_old", kl_old)
        if fixed.magnet is not None:
            magnet_kl = self._divergence(output.logprobs, fixed.magnet, "k2")
            terms = terms + objective.magnet * magnet_kl
            self._add_by_token(sums, "magnet_kl", magnet_kl)
        if fixed.reference is not None:
            reference_kl = self._divergence(output.logprobs, fixed.reference, objective.kl_estimator)
            terms = terms + objective.kl_reference * reference_kl
            self._add_by_token(sums, "reference_kl", reference_kl)
        if band.weight:
            outside = outside_band(output.entropy, self._low, self._high)
            terms = terms + band.weight * outside
            self._add_by_token(sums, "outside_band", outside)
        return terms

    def _report(self, output: PolicyOutput, fixed: _Fixed, sums: MetricSums) -> None:
        tensors, by_draw = self._tensors, self._tensors.by_draw
        sums.add("turns", tensors.visits)
        sums.add("gap", by_draw.gaps(fixed.old))
        self._add_by_token(sums, "entropy", output.entropy)
        for game, of_game in self._of_game.items():
            sums.add(f"turns/{game}", tensors.visits[of_game])
            sums.add(f"tokens/{game}", (tensors.visits * tensors.real.sum(1))[of_game])
            sums.add(f"entropy/{game}", (tensors.visits * (output.entropy * tensors.real).sum(1))[of_game])
        if fixed.importance is not None:
            sums.add("importance", by_draw.shares * fixed.importance)
            sums.add("truncated", by_draw.shares * (fixed.importance == self._objective.truncate))

    def _add_by_token(self, sums: MetricSums, name: str, values: Tensor) -> None:
        """Add the sum of values by token [R, T], times the turns of each row."""
        sums.add(name, self._tensors.visits * (values * self._tensors.real).sum(1))

    @abstractmethod
    def _forward(self, lm: LanguageModel) -> PolicyOutput:
        """Run a model over the chunk."""

    @abstractmethod
    def _inputs(self) -> object:
        """Return all that ``_forward`` reads but the weights, to be hashed; None if it is not worth keeping."""

    @abstractmethod
    def _divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        """Return KL(pi | other).  # [R, W], [R, W] -> [R, T]"""

    @abstractmethod
    def _from_teacher(self, logprobs: Tensor, said: Tensor, old: Tensor) -> Tensor:
        """Return the divergence from a teacher's log-probs, or what has its gradient.  # [N, W] -> [N, T]"""

    @abstractmethod
    def _ratio_logprobs(self, logprobs: Tensor) -> Tensor:
        """Return the log-probs whose difference is the log of the surrogate's ratio.  # [R, W]"""

    @abstractmethod
    def _by_reply(self, logprobs: Tensor) -> Tensor:
        """Return the log-probs of whole replies.  # [R, W] -> [M]"""

    @abstractmethod
    def reply_index(self, row: int, reply: int) -> int:
        """Return the index of a row's reply among the chunk's M."""

    @abstractmethod
    def _mix_magnet(self, magnet: Tensor) -> Tensor:
        """Return the magnet's log-probs, mixed with the uniform policy where that is exact.  # [R, W]"""


def _outside_clip(logprobs: Tensor, old: Tensor, surrogate: Surrogate) -> Tensor:
    """Return 1 where the ratio is outside the clip range, else 0."""
    ratio = (logprobs.detach() - old).exp()
    return ((ratio < 1 - surrogate.clip_low) | (ratio > 1 + surrogate.clip_high)).float()
