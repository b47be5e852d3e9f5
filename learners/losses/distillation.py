"""``distill``: the policy's divergence from a teacher on the policy's own replies (on-policy distillation).

Generalised knowledge distillation (Agarwal et al., arXiv 2306.13649; MiniLLM, arXiv 2306.08543): at the turns that the
student itself reached, minimise D(π, q) between its policy π and the teacher's q, with a divergence of
``learners.losses.divergences``. For a ``choice`` all replies are scored, so D is exact. For a free reply the teacher
has scored only the sampled tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from games.common.section import NonNegative, Section
from learners.batching import ChoiceRow, FreeRow
from learners.losses.divergences import DIVERGENCES, sampled_divergence
from learners.losses.term import ChunkTerm, LossContext, LossTerm, Term, UpdateFacts

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from learners.losses.chunk import Fixed, PolicyOutput, RowChunk
    from learners.metric_sums import MetricSums

LEAST = 1e-30  # a teacher's smaller probabilities count as this one, so that logarithms are finite


class Distillation(Section):
    """How much a teacher weighs in an update."""

    weight: NonNegative = Field(0.0, description="weight of the divergence; 0: off")
    divergence: str = Field("reverse", description="the divergence to minimise")


class TaughtTurns(NamedTuple):
    """Turns of a row with equal scores from a teacher."""

    free: bool  # the form of the row
    row: int  # its index among the batch's rows of that form
    role: str  # GAME/ROLE
    said: tuple[float, ...]  # probabilities of the legal replies [A]; of a free reply its tokens' log-probs (nats) [T]
    turns: float
    weight: float  # sum of the weights of each of their tokens in the batch's loss


class TaughtRows(NamedTuple):
    """The rows of ``distill``: a teacher's scores for turns of the batch."""

    weight: float  # of the divergence, a token
    divergence: str
    taught: tuple[TaughtTurns, ...]


def taught_rows(facts: UpdateFacts, settings: Distillation) -> TaughtRows | None:
    """Return the teachers' scores for the turns of an update; None at weight 0, and where no teacher was asked."""
    if not settings.weight:
        return None
    merged: dict[object, TaughtTurns] = {}
    for i, (trajectory, evidence) in enumerate(zip(facts.trajectories, facts.evidence, strict=True)):
        role, places_K = f"{trajectory.game}/{trajectory.role}", facts.packed.places[i]
        said_K = (evidence.taught if places_K else None) or ((),) * len(places_K)
        for place, weight, scores in zip(places_K, facts.packed.weights[i], said_K, strict=True):
            if place is not None and scores:
                key = place.free, place.row, role, scores
                turns = merged.get(key, TaughtTurns(*key, 0.0, 0.0))
                merged[key] = turns._replace(turns=turns.turns + 1, weight=turns.weight + weight)
    return TaughtRows(settings.weight, settings.divergence, tuple(merged.values())) if merged else None


class Distill(Term):
    """The teachers' scores for one batch."""

    def __init__(self, context: LossContext) -> None:
        super().__init__(context)
        self._taught: dict[tuple[bool, int], list[TaughtTurns]] = {}  # by form and row
        for turns in context.rows.taught:
            self._taught.setdefault((turns.free, turns.row), []).append(turns)

    def on_chunk(self, chunk: RowChunk) -> ChunkTerm | None:
        """See ``Term``."""
        taught_turns = [
            (index, row, turns)
            for index, (row, index_in_batch) in enumerate(zip(chunk.rows, chunk.indices, strict=True))
            for turns in self._taught.get((chunk.free, index_in_batch), ())
        ]
        if not taught_turns:
            return None
        taught = TaughtTensors(taught_turns, chunk.tensors.gains.shape[1], chunk.device)
        weight, divergence = self.context.rows.weight, DIVERGENCES[self.context.rows.divergence]

        def loss(output: PolicyOutput, fixed: Fixed, sums: MetricSums) -> Tensor:
            logprobs, old = output.logprobs[taught.row], fixed.old[taught.row]
            taught.report(chunk.divergence(logprobs.detach(), taught.said, "k1"), sums)
            if chunk.free:
                divergences = sampled_divergence(divergence, logprobs, taught.said, old)
            else:
                divergences = divergence.make(logprobs, taught.said)[:, None]
            scaled: Tensor = weight * taught.loss(divergences)
            return scaled

        return loss


class TaughtTensors:
    """The turns of a chunk that a teacher scored; turns of one row with equal scores are one of N."""

    def __init__(
        self, taught_turns: Sequence[tuple[int, ChoiceRow | FreeRow, TaughtTurns]], width: int, device: torch.device
    ) -> None:
        """``taught_turns`` come with their row and its index in the chunk; rows are padded to ``width``."""
        import torch

        from arena.lm.tensors import to_device

        roles = dict.fromkeys(turns.role for _, _, turns in taught_turns)
        self.row = to_device([index for index, _, _ in taught_turns], device, torch.long)  # [N]
        # the teacher's log-probs; MASKED behind a row's last reply, 0 behind its last token  # [N, W]
        self.said = to_device([_logprobs(row, turns.said, width) for _, row, turns in taught_turns], device)
        # 1 at tokens  [N, T], and the weight of each of them in the loss  [N]
        self._real = to_device([_real(row, width) for _, row, _ in taught_turns], device)
        self._weight = to_device([turns.weight for _, _, turns in taught_turns], device)
        self._turns_of_role = {  # the turns of each, 0 for other roles  # [N]
            role: to_device([turns.turns * (turns.role == role) for _, _, turns in taught_turns], device)
            for role in roles
        }

    def loss(self, divergences: Tensor) -> Tensor:
        """Return the weighted sum of the tokens' divergences.  # [N, T] -> []"""
        return (self._weight * (divergences * self._real).sum(1)).sum()

    def report(self, divergences: Tensor, sums: MetricSums) -> None:
        """Add to ``sums`` the tokens' divergences [N, T] by role (``teacher_kl/``), and their number (``taught/``)."""
        by_turn, tokens = (divergences * self._real).sum(1), self._real.sum(1)
        for role, turns in self._turns_of_role.items():
            sums.add(f"teacher_kl/{role}", turns * by_turn)
            sums.add(f"taught/{role}", turns * tokens)


def _logprobs(row: ChoiceRow | FreeRow, scores: Sequence[float], width: int) -> list[float]:
    """Return a teacher's scores as log-probs, padded like the policy's."""
    from arena.lm.logprobs import MASKED

    if isinstance(row, FreeRow):
        return [*scores, *[0.0] * (width - len(scores))]
    return [*(math.log(max(probability, LEAST)) for probability in scores), *[MASKED] * (width - len(scores))]


def _real(row: ChoiceRow | FreeRow, width: int) -> list[float]:
    """Return 1 at a row's tokens, of which a choice has one, and 0 at padding."""
    tokens = len(row.reply) if isinstance(row, FreeRow) else 1
    return [1.0] * tokens + [0.0] * (width - tokens if isinstance(row, FreeRow) else 0)


def _metrics(sums: MetricSums) -> dict[str, Any]:
    """Return KL(policy | teacher) by role, in nats a token; a choice counts as one."""
    roles = [name.removeprefix("taught/") for name in sums.totals if name.startswith("taught/")]
    return {f"teacher_kl/{role}": sums.mean(f"teacher_kl/{role}", f"taught/{role}") for role in roles}


DISTILL = LossTerm(
    Distill,
    Distillation,
    description="the divergence from what a teacher says to the policy's own replies",
    rows=taught_rows,
    metrics=_metrics,
)
