"""A batch's loss, split into minibatches and chunks for the inner steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm.language_model import LanguageModel
from arena.lm.scoring import plan_passes
from learners.batching import ChoiceRow, FreeRow, ImitationRows, Pair, RowUnit, TrainBatch
from learners.losses.choice_and_free import ChoiceChunkLoss, FreeChunkLoss
from learners.losses.chunk_loss import Models
from learners.losses.frozen_results import FrozenResults
from learners.losses.imitation import IMITATION, LISTENING, PREDICTION, ImitationLoss, SumNames, imitation_chunks
from learners.losses.objective import Objective
from learners.losses.preferences import group_paired_rows
from learners.losses.trajectory_scores import TrajectoryObjective, TrajectoryScores
from learners.metric_sums import MetricSums
from learners.parallel.process_group import SINGLE_PROCESS, ProcessGroup
from roles.truncation import NO_TRUNCATION, Truncation


class BatchLoss:
    """The losses of one batch, split into minibatches for the inner steps.

    A game with many different prompts is split into up to ``minibatches`` of at least ``minibatch_rows`` rows, whose
    loss is scaled to that of the game's whole batch; a game with few prompts is in every minibatch. Paired free replies
    stay in one minibatch. Where whole trajectories are judged, a step takes the whole batch, and needs their scores
    under its weights first (``score_trajectories``, ``weigh_trajectories``). ``entropy_means`` are the running means,
    by game, that define the objective's entropy band; a game without one has no band yet. This process computes its
    share of every minibatch in ``process_group``.
    """

    def __init__(
        self,
        lm: LanguageModel,
        magnet: LanguageModel | None,
        batch: TrainBatch,
        objective: Objective,
        *,
        max_tokens: int,
        reference: LanguageModel | None = None,
        results: FrozenResults | None = None,
        entropy_means: Mapping[str, float] | None = None,
        minibatches: int = 1,
        minibatch_rows: int = 1,
        process_group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        if objective.needs_reference and reference is None:
            raise ValueError("The objective needs a policy that keeps its reference: Policy(reference=True).")
        self._models = Models(
            lm, magnet if objective.magnet else None, reference if objective.needs_reference else None, results
        )
        self.frozen_models = [lm for lm in self._models[1:3] if lm is not None]  # they run before the trained one
        self._objective, self._means, self._max_tokens = objective, entropy_means or {}, max_tokens
        self._of_trajectories: TrajectoryObjective | None = None
        if objective.surrogate.judges_trajectories:
            minibatches, scored = 1, (self._models, batch, objective.surrogate, max_tokens, process_group)
            self._of_trajectories = TrajectoryObjective(*scored)
        self._chunks: dict[_Minibatch, list[ChoiceChunkLoss | FreeChunkLoss | ImitationLoss]] = {}
        single_units = [(index,) for index in range(len(batch.choice))]
        for (key, temperature, _), units in _split(batch.choice, single_units, minibatches, minibatch_rows).items():
            rows = [batch.choice[index] for (index,) in process_group.local_units(units, batch.choice)]
            self._chunks.setdefault(key, []).extend(self._choice_chunks(rows, temperature))
        self._add_free(batch, minibatches, minibatch_rows, process_group)
        self._add_given(batch.imitation, minibatches, minibatch_rows, process_group, IMITATION)
        self._add_given(batch.listening, minibatches, minibatch_rows, process_group, LISTENING)
        self._add_given(batch.prediction, minibatches, minibatch_rows, process_group, PREDICTION)

    def _add_free(self, batch: TrainBatch, minibatches: int, minibatch_rows: int, process_group: ProcessGroup) -> None:
        """Add this process's share of free replies; those of a pair stay together."""
        pairs: dict[int, list[Pair]] = {}  # by the chosen row
        for pair in batch.free_pairs:
            pairs.setdefault(pair.chosen, []).append(pair)
        paired_units = group_paired_rows(batch.free, batch.free_pairs)
        for (key, temperature, truncation), units in _split(
            batch.free, paired_units, minibatches, minibatch_rows
        ).items():
            local_units = process_group.local_units(units, batch.free)
            chunks = self._free_chunks(batch.free, local_units, pairs, temperature, truncation)
            self._chunks.setdefault(key, []).extend(chunks)

    def _add_given(
        self, given: ImitationRows, minibatches: int, minibatch_rows: int, process_group: ProcessGroup, names: SumNames
    ) -> None:
        """Add this process's share of given replies, split as a game's rows are; ``names`` are those of their sums."""
        for rows in given:
            single_units = [(index,) for index in range(len(rows))]
            for (key, temperature, _), units in _split(rows, single_units, minibatches, minibatch_rows).items():
                local_rows = [rows[index] for (index,) in process_group.local_units(units, rows)]
                chunks = imitation_chunks(self._models.lm, local_rows, temperature, self._max_tokens, names)
                self._chunks.setdefault(key, []).extend(chunks)

    def _choice_chunks(self, rows: Sequence[ChoiceRow], temperature: float) -> Iterator[ChoiceChunkLoss]:
        """Yield the chunks of rows of one temperature."""
        tries = [self._models.lm.trie(row.legal) for row in rows]
        for chunk in self._models.lm.plan_choice_packs([row.prompt for row in rows], tries, self._max_tokens):
            yield ChoiceChunkLoss(self._models, self._objective, self._means, chunk, rows, temperature)

    def _free_chunks(
        self,
        rows: Sequence[FreeRow],
        units: Sequence[RowUnit],
        pairs: Mapping[int, Sequence[Pair]],
        temperature: float,
        truncation: Truncation,
    ) -> Iterator[FreeChunkLoss]:
        """Yield the chunks of units sampled alike. Rows of a unit have one prompt, and stay in one chunk."""
        sampling = temperature, truncation
        prompts, replies = [row.prompt for row in rows], [row.reply for row in rows]
        for forward_pass in plan_passes(self._models.lm, prompts, replies, self._max_tokens, units):
            yield FreeChunkLoss(self._models, self._objective, self._means, forward_pass, rows, sampling, pairs)

    @torch.no_grad()
    def record_old(self, sums: MetricSums) -> None:
        """Store the log-probs of the current weights as pi_old, and add the loss of the batch to ``sums``."""
        for chunks in self._chunks.values():
            for chunk in chunks:
                sums.add("loss", chunk.loss(sums))

    def score_trajectories(self) -> TrajectoryScores | None:
        """Return this process's part of the scores of whole trajectories; None where the objective judges none."""
        return None if self._of_trajectories is None else self._of_trajectories.score(self._rows_chunks())

    def weigh_trajectories(self, scores: TrajectoryScores) -> None:
        """Give the chunks the slopes of the loss, from the scores of all processes together."""
        assert self._of_trajectories is not None, "only an objective that judges trajectories has scores"
        self._of_trajectories.weigh(self._rows_chunks(), scores)

    def _rows_chunks(self) -> list[ChoiceChunkLoss | FreeChunkLoss]:
        """Return the chunks of the batch's own rows."""
        return [chunk for chunks in self._chunks.values() for chunk in chunks if not isinstance(chunk, ImitationLoss)]

    @property
    def is_whole(self) -> bool:
        """Whether every inner step takes the whole batch, so that the first one's passes see all of it."""
        return all(key.total == 1 for key in self._chunks)

    def chunk_count(self, step: int | None = None) -> int:
        """Return the number of chunks of an inner step, or of the batch."""
        return sum(len(chunks) for key, chunks in self._chunks.items() if step is None or key.is_at(step))

    def losses(self, step: int, sums: MetricSums) -> Iterator[Tensor]:
        """Yield an inner step's loss chunk by chunk, each with a separate graph; add to ``sums``."""
        for key, chunks in self._chunks.items():
            if key.is_at(step):
                for chunk in chunks:
                    yield chunk.loss(sums) * key.total


class _Minibatch(NamedTuple):
    """Minibatch ``number`` of ``total``; games differ in their totals."""

    number: int
    total: int

    def is_at(self, step: int) -> bool:
        """Return whether an inner step takes this minibatch."""
        return step % self.total == self.number


def _split(
    rows: Sequence[ChoiceRow | FreeRow], units: Sequence[RowUnit], minibatches: int, minibatch_rows: int
) -> dict[tuple[_Minibatch, float, Truncation], list[RowUnit]]:
    """Return units by (minibatch, temperature, truncation); a game's are assigned to its minibatches in turn."""
    by_game: dict[str, list[RowUnit]] = {}
    for unit in units:
        by_game.setdefault(rows[unit[0]].game, []).append(unit)
    assigned: dict[tuple[_Minibatch, float, Truncation], list[RowUnit]] = {}
    for game_units in by_game.values():
        count = min(minibatches, max(1, len(game_units) // minibatch_rows))
        for index, unit in enumerate(game_units):
            row = rows[unit[0]]
            truncation = row.truncation if isinstance(row, FreeRow) else NO_TRUNCATION
            assigned.setdefault((_Minibatch(index % count, count), row.temperature, truncation), []).append(unit)
    return assigned
