"""A batch's loss, split into minibatches and chunks for the inner steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from learners.batching import ChoiceRow, FreeRow, RowUnit, TrainBatch
from learners.losses import LOSSES, term_named
from learners.losses.choice_and_free import ChoiceChunkLoss, FreeChunkLoss
from learners.losses.chunk import Models
from learners.losses.chunk_loss import ChunkLoss, ChunkPlan
from learners.losses.frozen_results import FrozenResults
from learners.losses.objective import Objective
from learners.losses.term import LossContext, LossNeed, OwnChunk, Term
from learners.metric_sums import MetricSums
from learners.parallel.process_group import SINGLE_PROCESS, ProcessGroup
from learners.waist import Waist
from roles.truncation import NO_TRUNCATION, Truncation

Scores = list[list[float]]


class BatchLoss:
    """The losses of one batch, split into minibatches for the inner steps.

    A game with many different prompts is split into up to ``minibatches`` of at least ``minibatch_rows`` rows, whose
    loss is scaled to the game's whole batch; a game with few prompts is in every minibatch. Free replies that a
    term wants together stay in one minibatch. Where the surrogate needs scores, a step takes the whole batch, and the
    scores under the current weights are computed first (``score``, ``weigh``). ``entropy_means`` are the running means,
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
        waist: Waist | None = None,
        results: FrozenResults | None = None,
        entropy_means: Mapping[str, float] | None = None,
        minibatches: int = 1,
        minibatch_rows: int = 1,
        process_group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        if objective.needs_reference and reference is None:
            raise ValueError("The objective needs a policy that keeps its reference: Policy(reference=True).")
        self._models = Models(
            lm, magnet if objective.magnet else None, reference if objective.needs_reference else None, results, waist
        )
        self.frozen_models = [lm for lm in self._models[1:3] if lm is not None]  # they run before the trained model
        self._max_tokens, self._group = max_tokens, process_group
        if waist is not None:
            _check_waist(objective)
        entry = LOSSES[objective.surrogate.name]
        self._surrogate = self._term(batch, objective.surrogate.name, objective.surrogate.table)
        self._terms = [self._surrogate]
        self._terms += [self._term(batch, n, None) for n in batch.terms if n != objective.surrogate.name]
        self._needs_scores = LossNeed.SCORES in entry.needs
        self._plan = ChunkPlan(self._models, objective, entropy_means or {}, self._terms)
        self._chunks: dict[_Minibatch, list[ChunkLoss | OwnChunk]] = {}
        cut = (1 if self._needs_scores else minibatches), minibatch_rows
        self._add_choice(batch.choice, *cut)
        self._add_free(batch.free, *cut)
        for term in self._terms:
            for rows in term.own_rows():
                self._add_own(term, rows, *cut)

    def _term(self, batch: TrainBatch, name: str, settings: Any) -> Term:
        """Return a term of the batch; auxiliary terms have their settings in their rows."""
        rows = batch.terms.get(name)
        return term_named(name).make(LossContext(self._models, batch, rows, settings, self._max_tokens, self._group))

    def _add_choice(self, rows: Sequence[ChoiceRow], minibatches: int, minibatch_rows: int) -> None:
        """Add this process's share of replies that were chosen."""
        if rows:
            self._models.refuse_choice(rows[0].game)
        single_units = [(index,) for index in range(len(rows))]
        for (key, temperature, _), units in _split(rows, single_units, minibatches, minibatch_rows).items():
            indices = [index for (index,) in self._group.local_units(units, rows)]
            local_rows = [rows[index] for index in indices]
            tries = [self._models.lm.trie(row.legal) for row in local_rows]
            packs = self._models.lm.plan_choice_packs([row.prompt for row in local_rows], tries, self._max_tokens)
            chunks = [ChoiceChunkLoss(self._plan, pack, local_rows, indices, temperature) for pack in packs]
            self._chunks.setdefault(key, []).extend(chunks)

    def _add_free(self, rows: Sequence[FreeRow], minibatches: int, minibatch_rows: int) -> None:
        """Add this process's share of free replies. Rows of a unit have one prompt, and stay in one chunk."""
        units = _units(rows, [pair for term in self._terms for pair in term.together()])
        prompts, replies = [row.prompt for row in rows], [row.reply for row in rows]
        for (key, temperature, truncation), split in _split(rows, units, minibatches, minibatch_rows).items():
            local_units = self._group.local_units(split, rows)
            passes = self._models.plan_free(prompts, replies, self._max_tokens, local_units)
            chunks = [
                FreeChunkLoss(self._plan, replies_pass, rows, (temperature, truncation)) for replies_pass in passes
            ]
            self._chunks.setdefault(key, []).extend(chunks)

    def _add_own(self, term: Term, rows: Sequence[ChoiceRow | FreeRow], minibatches: int, minibatch_rows: int) -> None:
        """Add this process's share of a term's own rows, split like a game's rows."""
        single_units = [(index,) for index in range(len(rows))]
        for (key, temperature, _), units in _split(rows, single_units, minibatches, minibatch_rows).items():
            local_rows = [rows[index] for (index,) in self._group.local_units(units, rows)]
            self._chunks.setdefault(key, []).extend(term.cut(local_rows, temperature))

    @torch.no_grad()
    def record_old(self, sums: MetricSums) -> None:
        """Store the log-probs of the current weights as pi_old, and add the loss of the batch to ``sums``."""
        for chunks in self._chunks.values():
            for chunk in chunks:
                sums.add("loss", chunk.loss(sums))

    def score(self) -> Scores | None:
        """Return this process's part of the scores that a step needs first; None where it needs none."""
        return self._surrogate.score(self._rows_chunks()) if self._needs_scores else None

    def weigh(self, totals: Scores) -> None:
        """Take the scores, summed over all processes, before a step."""
        self._surrogate.weigh(self._rows_chunks(), totals)

    def _rows_chunks(self) -> list[ChunkLoss]:
        """Return the chunks of the batch's own rows, without those that terms add."""
        return [chunk for chunks in self._chunks.values() for chunk in chunks if isinstance(chunk, ChunkLoss)]

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


def _check_waist(objective: Objective) -> None:
    """Refuse the terms of an objective that read more of a model than the log-probs of sampled tokens."""
    for name, weight in (("entropy", any(objective.entropy.values())), ("epo", objective.band.weight)):
        if weight:
            raise UsageError(
                f"objective.{name} needs the entropy of whole distributions, but a remote trainer returns only the "
                f"log-probs of the sampled tokens. Set objective.{name} = 0.0, or trainer.kind = 'torch'."
            )


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


def _units(rows: Sequence[FreeRow], pairs: Sequence[tuple[int, int]]) -> list[RowUnit]:
    """Return units of row indices: paired rows with the same prompt are one unit, every other row is its own."""
    paired = {index for pair in pairs for index in pair}
    units: dict[object, list[int]] = {}
    for index, row in enumerate(rows):
        sampling = row.game, row.prompt, row.temperature, row.truncation
        units.setdefault(sampling if index in paired else index, []).append(index)
    return [tuple(unit) for unit in units.values()]
