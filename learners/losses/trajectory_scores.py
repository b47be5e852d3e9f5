"""The loss of whole trajectories (``kto``, ``dmpo``), whose turns are rows of many passes.

The loss is a function f of the scores S_i of the trajectories, each a weighted sum of log-ratios of rows. Its gradient
is sum_i f'(S_i) grad S_i, so that a step takes two passes over the rows: one without gradients, which gives the scores
and from them f', and one in which every reply's log-prob is weighted by its coefficient, chunk by chunk. That is the
exact gradient of the whole batch's loss, however it is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from arena.lm.logprobs import ScoreOptions
from arena.lm.tensors import to_device
from learners.batching import FreeRow
from learners.losses.chunk import Fixed, PolicyOutput, RowChunk
from learners.losses.term import ChunkTerm, LossContext, Term
from learners.losses.whole_trajectories import WholeTrajectories
from learners.metric_sums import MetricSums

# from the rows, the scores [N] and each trajectory's part of the reference point [N] (nats), and the settings: the loss
# of all, and sums to report
ScoresLoss = Callable[[WholeTrajectories, Tensor, Sequence[float], Any], tuple[Tensor, dict[str, float]]]


class _Coefficients(NamedTuple):
    """A chunk's part of the loss under the current weights, linearised."""

    by_reply: Tensor  # the slope of the loss along each reply's log-prob  # [M]
    loss: float  # the chunk's share of the loss
    sums: Mapping[str, float]  # its shares of the reported sums


class TrajectoryTerm(Term):
    """The loss of a batch's whole trajectories, over the chunks that this process computes.

    ``turn_weights`` returns the weights of a trajectory's turns in its score, from their number.
    """

    def __init__(self, context: LossContext, turn_weights: Callable[[int], Sequence[float]], loss: ScoresLoss) -> None:
        super().__init__(context)
        self._loss, self._whole = loss, WholeTrajectories(()) if context.rows is None else context.rows
        self._coefficients: dict[RowChunk, _Coefficients] = {}
        # by form and row: (trajectory, reply, weight)
        self._turns: dict[tuple[bool, int], list[tuple[int, int, float]]] = {}
        for number, trajectory in enumerate(self._whole.scored):
            for reply_place, weight in zip(trajectory.turns, turn_weights(len(trajectory.turns)), strict=True):
                if reply_place is not None:
                    self._turns.setdefault((reply_place.free, reply_place.row), []).append(
                        (number, reply_place.reply, weight)
                    )
        self._reply_count = sum(map(len, self._turns.values()))

    def on_chunk(self, chunk: RowChunk) -> ChunkTerm:
        """Return a function that computes the chunk's share of the loss, with the whole gradient; 0 before scores."""

        def loss(output: PolicyOutput, _fixed: Fixed, sums: MetricSums) -> Tensor:
            coefficients, by_reply = self._coefficients.get(chunk), chunk.by_reply(output.logprobs)
            if coefficients is None:
                return 0.0 * by_reply.sum()
            for name, number in coefficients.sums.items():
                sums.add(name, by_reply.new_tensor(number))
            return coefficients.loss + (coefficients.by_reply * (by_reply - by_reply.detach())).sum()

        return loss

    @torch.no_grad()
    def score(self, chunks: Sequence[RowChunk]) -> list[list[float]]:
        """Return this process's part of the scores under the current weights, and of the reference points."""
        scores, points = [0.0] * len(self._whole.scored), [0.0] * len(self._whole.scored)
        for chunk in chunks:
            ratios, kl = chunk.log_ratios()
            ratios_M, kl_R = ratios.tolist(), kl.tolist()
            for row, index in enumerate(chunk.indices):
                for number, reply, weight in self._turns.get((chunk.free, index), ()):
                    scores[number] += weight * ratios_M[chunk.reply_index(row, reply)]
                    points[number] += 0.0 if chunk.free else kl_R[row]
        self._add_mismatched(points)
        return [scores, points]

    @torch.enable_grad()
    def weigh(self, chunks: Sequence[RowChunk], totals: Sequence[Sequence[float]]) -> None:
        """Compute the coefficients of the chunks' log-probs, and their shares of the loss, from all scores."""
        scores = torch.tensor(totals[0], dtype=torch.float64, requires_grad=True)
        loss, numbers = self._loss(self._whole, scores, totals[1], self.context.settings)
        (slopes,) = torch.autograd.grad(loss, scores) if len(totals[0]) else (scores.detach(),)
        slopes_N, value = slopes.tolist(), float(loss.detach())
        for chunk in chunks:
            coefficients, turns = [0.0] * chunk.reply_index(len(chunk.rows), 0), 0
            for row, index in enumerate(chunk.indices):
                for number, reply, weight in self._turns.get((chunk.free, index), ()):
                    coefficients[chunk.reply_index(row, reply)] += slopes_N[number] * weight
                    turns += 1
            share = turns / max(self._reply_count, 1)
            shares = {name: share * number for name, number in numbers.items()}
            self._coefficients[chunk] = _Coefficients(to_device(coefficients, chunk.device), share * value, shares)

    def _add_mismatched(self, kl: list[float]) -> None:
        """Add the log-ratios of this process's share of the mismatched replies to their trajectories."""
        models = self.context.models
        rows = [
            FreeRow("", "", reply.prompt, reply.reply, reply.temperature, 1.0, 0.0, 0.0, 0.0)
            for reply in self._whole.mismatched
        ]
        local = [
            index for (index,) in self.context.process_group.local_units([(index,) for index in range(len(rows))], rows)
        ]
        ratios: dict[int, float] = {}
        for temperature in dict.fromkeys(rows[index].temperature for index in local):
            same_temperature = [index for index in local if rows[index].temperature == temperature]
            prompts, replies = (
                [rows[index].prompt for index in same_temperature],
                [rows[index].reply for index in same_temperature],
            )
            for replies_pass in models.plan_free(prompts, replies, self.context.max_tokens):
                assert models.reference is not None, "BatchLoss refuses such an objective without a reference"
                scores = [replies_pass.scores(lm, ScoreOptions(temperature)) for lm in (models.reference, models.lm)]
                log_ratios = (scores[1].logprobs - scores[0].logprobs).sum(1).tolist()
                ratios |= {
                    same_temperature[item]: ratio for item, ratio in zip(replies_pass.items, log_ratios, strict=True)
                }
        for number, trajectory in enumerate(self._whole.scored):
            kl[number] += sum(ratios.get(index, 0.0) for index in trajectory.mismatched)
