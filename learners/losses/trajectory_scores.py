"""Objectives of whole trajectories (``kto``, ``dmpo``), whose turns stand in rows of many passes.

The loss is a function f of the scores S_i of the trajectories, each a weighted sum of log-ratios of rows. Its gradient
is sum_i f'(S_i) grad S_i, so that a step takes two passes over the rows: one without gradients, which gives the scores
and from them f', and one in which every reply's log-prob is weighed by its coefficient, chunk by chunk. That is the
exact gradient of the whole batch's loss, however it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import plan_passes
from learners.batching import FreeRow, TrainBatch
from learners.losses.chunk_loss import ChunkLoss, Models
from learners.losses.surrogates import Surrogate, dpo_loss, kto_loss, turn_discounts
from learners.parallel.process_group import ProcessGroup
from learners.trajectories import ReplyPlace


class TrajectoryScores(NamedTuple):
    """What one pass over the rows gives, or this process's part of it; parts are summed."""

    scores: list[float]  # nats  # [N]
    kl: list[float]  # each trajectory's part of the reference point, before its mean over the role, nats  # [N]


class TrajectoryObjective:
    """The loss of a batch's whole trajectories, over the chunks that this process computes."""

    def __init__(
        self, models: Models, batch: TrainBatch, surrogate: Surrogate, max_tokens: int, process_group: ProcessGroup
    ) -> None:
        self._models, self._whole, self._surrogate, self._max_tokens = models, batch.whole, surrogate, max_tokens
        self._group = process_group
        self._weights_NK = [
            turn_discounts(len(one.turns), surrogate.gamma) if surrogate.name == "dmpo" else [1.0] * len(one.turns)
            for one in self._whole.scored
        ]
        self._indices = {id(row): (index, False) for index, row in enumerate(batch.choice)}
        self._indices |= {id(row): (index, True) for index, row in enumerate(batch.free)}
        self._turns: dict[tuple[int, bool], list[tuple[int, int, float]]] = {}  # by row: (trajectory, reply, weight)
        for number, (one, weights_K) in enumerate(zip(self._whole.scored, self._weights_NK, strict=True)):
            for place, weight in zip(one.turns, weights_K, strict=True):
                if isinstance(place, ReplyPlace):
                    self._turns.setdefault((place.row, place.free), []).append((number, place.reply, weight))
        self._places = sum(map(len, self._turns.values()))

    @torch.no_grad()
    def score(self, chunks: Sequence[ChunkLoss]) -> TrajectoryScores:
        """Return this process's part of the scores under the current weights."""
        zeros = [0.0] * len(self._whole.scored)
        parts = TrajectoryScores(zeros, zeros[:])
        for chunk in chunks:
            ratios, kl = chunk.log_ratios()
            ratios_M, kl_R = ratios.tolist(), kl.tolist()
            for index, row in enumerate(chunk.rows):
                free = self._indices[id(row)][1]
                for number, reply, weight in self._turns.get(self._indices[id(row)], ()):
                    parts.scores[number] += weight * ratios_M[chunk.reply_index(index, reply)]
                    parts.kl[number] += 0.0 if free else kl_R[index]
        self._add_mismatched(parts.kl)
        return parts

    @torch.enable_grad()
    def weigh(self, chunks: Sequence[ChunkLoss], found: TrajectoryScores) -> None:
        """Give this process's chunks the coefficients of their replies' log-probs, and their share of the loss.

        ``found`` are the scores of all processes together.
        """
        scores = torch.tensor(found.scores, dtype=torch.float64, requires_grad=True)
        loss, numbers = self._kto(scores, found.kl) if self._surrogate.name == "kto" else self._dmpo(scores)
        (slopes,) = torch.autograd.grad(loss, scores) if len(found.scores) else (scores.detach(),)
        slopes_N, value = slopes.tolist(), float(loss.detach())
        for chunk in chunks:
            coefficients, turns = [0.0] * chunk.reply_index(len(chunk.rows), 0), 0
            for index, row in enumerate(chunk.rows):
                for number, reply, weight in self._turns.get(self._indices[id(row)], ()):
                    coefficients[chunk.reply_index(index, reply)] += slopes_N[number] * weight
                    turns += 1
            share = turns / max(self._places, 1)
            shares = {name: share * number for name, number in numbers.items()}
            chunk.set_coefficients(coefficients, share * value, shares)

    def _dmpo(self, scores: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of all pairs, and sums to report."""
        pairs = self._whole.pairs
        chosen, rejected = (scores[[pair[side] for pair in pairs]] for side in (0, 1))
        weights = torch.tensor([pair.weight for pair in pairs], dtype=scores.dtype)
        margins = (chosen - rejected).detach()
        reported = {
            "pairs": float(len(pairs)),
            "preferred": float((margins > 0).sum()),
            "margin": float(margins.sum()),
        }
        return (weights * dpo_loss(chosen, rejected, self._surrogate.beta)).sum(), reported

    def _kto(self, scores: Tensor, kl: Sequence[float]) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of all trajectories, and sums to report."""
        scored = self._whole.scored
        by_role: dict[str, list[float]] = {}
        for one, nats in zip(scored, kl, strict=True):
            by_role.setdefault(one.role, []).append(nats)
        reference_points = {role: max(0.0, sum(nats) / len(nats)) for role, nats in by_role.items()}
        points = torch.tensor([reference_points[one.role] for one in scored], dtype=scores.dtype)
        desirable = torch.tensor([one.desirable for one in scored], dtype=torch.bool)
        weights = torch.tensor([one.weight for one in scored], dtype=scores.dtype)
        reported = {
            "trajectories": float(len(scored)),
            "desirable": float(desirable.sum()),
            "reference_point": float(points.sum()),
            "score_desirable": float(scores.detach()[desirable].sum()),
            "score_undesirable": float(scores.detach()[~desirable].sum()),
        }
        return (weights * kto_loss(scores, points, desirable, self._surrogate)).sum(), reported

    def _add_mismatched(self, kl: list[float]) -> None:
        """Add the log-ratios of this process's share of the mismatched replies to their trajectories."""
        rows = [
            FreeRow("", "", one.prompt, one.reply, one.temperature, 1.0, 0.0, 0.0, 0.0)
            for one in self._whole.mismatched
        ]
        mine = [index for (index,) in self._group.local_units([(index,) for index in range(len(rows))], rows)]
        ratios: dict[int, float] = {}
        for temperature in dict.fromkeys(rows[index].temperature for index in mine):
            alike = [index for index in mine if rows[index].temperature == temperature]
            prompts, replies = [rows[index].prompt for index in alike], [rows[index].reply for index in alike]
            for one in plan_passes(self._models.lm, prompts, replies, self._max_tokens):
                assert self._models.reference is not None, "BatchLoss refuses such an objective without a reference"
                both = [one.scores(lm, ScoreOptions(temperature)) for lm in (self._models.reference, self._models.lm)]
                found = (both[1].logprobs - both[0].logprobs).sum(1).tolist()
                ratios |= {alike[item]: ratio for item, ratio in zip(one.items, found, strict=True)}
        for number, trajectory in enumerate(self._whole.scored):
            kl[number] += sum(ratios.get(index, 0.0) for index in trajectory.mismatched)
