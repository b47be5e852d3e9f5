"""The loss of one chunk of the batch's rows: its terms, entropy, and divergences from other policies.

What differs between ``choice`` and ``free`` rows is in ``learners.losses.choice_and_free``. Dimensions: rows R;
elements W, a row's legal replies (``choice``) or its reply's tokens (``free``); tokens T, of which a ``choice`` row has
one; replies M of the whole chunk. Rows are padded with zeros.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from arena.lm.language_model import LanguageModel
from arena.lm.tensors import to_device
from learners.batching import ChoiceRow, FreeRow
from learners.losses.chunk import Fixed, Models, PolicyOutput, RowChunk, RowTensors
from learners.losses.distributions import outside_band
from learners.losses.objective import Objective
from learners.losses.term import Term
from learners.metric_sums import MetricSums


class ChunkPlan(NamedTuple):
    """What a chunk of the batch's rows is made of."""

    models: Models
    objective: Objective
    means: Mapping[str, float]  # the running means, by game, of the objective's entropy band
    terms: Sequence[Term]  # the surrogate first


class ChunkLoss(RowChunk):
    """One chunk of rows of one form. Its terms get it when it is made (``Term.on_chunk``)."""

    def __init__(
        self, plan: ChunkPlan, rows: Sequence[ChoiceRow | FreeRow], indices: Sequence[int], tensors: RowTensors
    ) -> None:
        """Make a chunk; ``indices`` are its rows' indices among the batch's rows of their form."""
        self._models, self._objective, means, terms = plan
        self.tensors, self.rows, self.indices = tensors, rows, indices
        models, objective = plan.models, plan.objective
        device, infinity, games = models.lm.device, float("inf"), [row.game for row in rows]
        band = [
            (means[g] * objective.band.low, means[g] * objective.band.high) if g in means else (-infinity, infinity)
            for g in games
        ]
        self._low, self._high = to_device(band, device).T[:, :, None]  # [R, 1] each
        bonus = [objective.entropy.get(row.root_game, 0.0) for row in rows]
        self._bonus = to_device(bonus, device)[:, None]
        self._of_game = {  # by index: counting the rows of a mask would wait for the GPU
            game: to_device([i for i, g in enumerate(games) if g == game], device) for game in dict.fromkeys(games)
        }
        roles = [f"{row.game}/{row.role}" for row in rows]
        self._of_role = {
            role: to_device([i for i, r in enumerate(roles) if r == role], device, torch.long)
            for role in dict.fromkeys(roles)
        }
        band_weights = [objective.band.roles.get(role, objective.band.weight) for role in roles]
        self._band_weight: float | Tensor = (
            to_device(band_weights, device)[:, None] if objective.band.roles else objective.band.weight
        )
        self._fixed: Fixed | None = None
        self._surrogate, *self._auxiliary = [term.on_chunk(self) for term in terms]

    @property
    def device(self) -> torch.device:
        """See ``RowChunk``."""
        return self._models.lm.device

    @torch.no_grad()
    def log_ratios(self) -> tuple[Tensor, Tensor]:
        """See ``RowChunk``."""
        output, fixed = self._outputs()
        assert fixed.reference is not None, "BatchLoss refuses such an objective without a reference"
        divergence = self.divergence(output.logprobs, fixed.reference, "k1").sum(1)
        return self.by_reply(output.logprobs - fixed.reference), divergence

    def loss(self, sums: MetricSums) -> Tensor:
        """Return the weighted loss of this chunk under the current weights; add its metrics to ``sums``.

        The first call fixes pi_old, the magnet's and the reference's log-probs and the importance weights.
        """
        tensors, output, fixed = self.tensors, *self._outputs()
        chosen = None if self._surrogate is None else self._surrogate(output, fixed, sums)
        tokens = self._token_terms(output, fixed, sums)
        self._report(output, fixed, sums)
        loss = (tensors.weight * (tokens * tensors.real).sum(1)).sum()
        loss = loss if chosen is None else chosen + loss
        for term in self._auxiliary:
            loss = loss if term is None else loss + term(output, fixed, sums)
        return loss

    def _outputs(self) -> tuple[PolicyOutput, Fixed]:
        """Return the output of the model in training, and the fixed log-probs.

        That model runs last: the backward pass recomputes activations with the adapter that is active then.
        """
        if self._fixed is not None:
            return self._forward(self._models.lm), self._fixed
        magnet, reference = self._frozen_logprobs("magnet"), self._frozen_logprobs("reference")
        output = self._forward(self._models.lm)
        self._fixed = self._fix_logprobs(output, magnet, reference)
        return output, self._fixed

    def _fix_logprobs(self, output: PolicyOutput, magnet: Tensor | None, reference: Tensor | None) -> Fixed:
        old, objective, tensors = output.logprobs.detach(), self._objective, self.tensors
        magnet = None if magnet is None else self._mix_magnet(magnet)
        by_draw = tensors.by_draw
        importance = by_draw.importance(old, objective.mismatch, objective.truncate)
        if importance is None:
            return Fixed(old, magnet, reference, None, tensors.gains, tensors.losses)
        return Fixed(old, magnet, reference, importance, *by_draw.weighted(importance, old.shape))

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

    def _token_terms(self, output: PolicyOutput, fixed: Fixed, sums: MetricSums) -> Tensor:
        """Return all terms but the surrogate, unweighted.  # [R, T]"""
        objective, band = self._objective, self._objective.band
        kl_old = self.divergence(output.logprobs, fixed.old, "k2")
        terms = objective.kl_old * kl_old - self._bonus * output.entropy
        self._add_by_token(sums, "kl_old", kl_old)
        if fixed.magnet is not None:
            magnet_kl = self.divergence(output.logprobs, fixed.magnet, "k2")
            terms = terms + objective.magnet * magnet_kl
            self._add_by_token(sums, "magnet_kl", magnet_kl)
        if fixed.reference is not None:
            reference_kl = self.divergence(output.logprobs, fixed.reference, objective.kl_estimator)
            terms = terms + objective.kl_reference * reference_kl
            self._add_by_token(sums, "reference_kl", reference_kl)
        if band.on:
            outside = outside_band(output.entropy, self._low, self._high)
            terms = terms + self._band_weight * outside
            self._add_by_token(sums, "outside_band", outside)
        return terms

    def _report(self, output: PolicyOutput, fixed: Fixed, sums: MetricSums) -> None:
        tensors, by_draw = self.tensors, self.tensors.by_draw
        sums.add("turns", tensors.visits)
        sums.add("gap", by_draw.gaps(fixed.old))
        self._add_by_token(sums, "entropy", output.entropy)
        for game, of_game in self._of_game.items():
            sums.add(f"turns/{game}", tensors.visits[of_game])
            sums.add(f"tokens/{game}", (tensors.visits * tensors.real.sum(1))[of_game])
            sums.add(f"entropy/{game}", (tensors.visits * (output.entropy * tensors.real).sum(1))[of_game])
        if fixed.importance is not None:
            sums.add("importance", by_draw.shares * fixed.importance)
            bound = self._objective.truncate if self._objective.mismatch.kind == "truncate" else 0.0
            sums.add("truncated", by_draw.shares * (fixed.importance == bound))
        self._report_mismatch(fixed, sums)

    def _report_mismatch(self, fixed: Fixed, sums: MetricSums) -> None:
        """Add how many tokens have another probability than the sampler gave them, by role."""
        by_draw = self.tensors.by_draw
        ratio = by_draw.ratios(fixed.old)
        tokens, outside = by_draw.turns[by_draw.draw], by_draw.outside(ratio)
        sums.raise_to("ratio_max", ratio)
        sums.add("ratio_tokens", tokens)
        sums.add("ratio_outside", outside)
        width = fixed.old.shape[1]
        for role, rows in self._of_role.items():
            of_role = torch.isin(by_draw.element // width, rows)
            sums.add(f"ratio_tokens/{role}", tokens * of_role)
            sums.add(f"ratio_outside/{role}", outside * of_role)

    def _add_by_token(self, sums: MetricSums, name: str, values: Tensor) -> None:
        """Add the sum of values by token [R, T], times the turns of each row."""
        sums.add(name, self.tensors.visits * (values * self.tensors.real).sum(1))

    @abstractmethod
    def _forward(self, lm: LanguageModel) -> PolicyOutput:
        """Run a model over the chunk."""

    @abstractmethod
    def _inputs(self) -> object:
        """Return everything that ``_forward`` reads except the weights, to be hashed; None if not worth caching."""

    @abstractmethod
    def _mix_magnet(self, magnet: Tensor) -> Tensor:
        """Return the magnet's log-probs, mixed with the uniform policy where that is exact.  # [R, W]"""
