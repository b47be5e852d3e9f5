"""A batch's loss, cut into minibatches and chunks for the inner steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from arena.lm import LanguageModel
from arena.scoring import plan_passes
from learners.batching import ChoiceRow, FreeRow, TrainBatch
from learners.loss_parts import ChoicePart, FreePart, Models
from learners.objective import Objective, Sums
from learners.team import ALONE, Team

_Row = TypeVar("_Row", ChoiceRow, FreeRow)


class BatchLoss:
    """The losses of one batch, cut into minibatches for the inner steps.

    A game with many different prompts is spread over up to ``parts`` minibatches of at least
    ``minibatch`` rows, each weighing for the whole; a game with few is in every one.
    ``entropy_means`` are the running means, by game, that the objective's band is around; a game
    without one has no band yet. Of a minibatch's rows this process has its share in ``team``.
    """

    def __init__(
        self,
        lm: LanguageModel,
        magnet: LanguageModel | None,
        batch: TrainBatch,
        objective: Objective,
        *,
        budget: int,
        reference: LanguageModel | None = None,
        entropy_means: Mapping[str, float] | None = None,
        parts: int = 1,
        minibatch: int = 1,
        team: Team = ALONE,
    ) -> None:
        if objective.kl_reference and reference is None:
            raise ValueError("objective.kl_reference needs a policy that keeps its reference: Policy(reference=True).")
        models = Models(lm, magnet if objective.magnet else None, reference if objective.kl_reference else None)
        self.held = [model for model in models[1:] if model is not None]  # asked once, before the one in training
        means = entropy_means or {}
        self._parts: dict[tuple[int, int], list[ChoicePart | FreePart]] = {}  # by (minibatch, of how many)
        for (key, temperature), rows in _minibatches(batch.choice, parts, minibatch).items():
            own = team.share(rows)
            tries = [lm.trie(row.legal) for row in own]
            chunks = lm.plan_choice([row.prompt for row in own], tries, budget)
            self._parts.setdefault(key, []).extend(
                ChoicePart(models, objective, means, chunk, own, temperature) for chunk in chunks
            )
        for (key, temperature), replies in _minibatches(batch.free, parts, minibatch).items():
            mine = team.share(replies)
            passes = plan_passes(lm, [row.prompt for row in mine], [row.reply for row in mine], budget)
            self._parts.setdefault(key, []).extend(
                FreePart(models, objective, means, one, mine, temperature) for one in passes
            )

    @torch.no_grad()
    def fix_old(self, sums: Sums) -> None:
        """Take the current weights' log-probs as pi_old, and add the whole batch's loss to ``sums``."""
        for chunks in self._parts.values():
            for chunk in chunks:
                sums.add("loss", chunk.loss(sums))

    def chunks(self, step: int | None = None) -> int:
        """Return how many chunks an inner step has, or the whole batch."""
        return sum(
            len(chunks) for (number, parts), chunks in self._parts.items() if step is None or step % parts == number
        )

    def losses(self, step: int, sums: Sums) -> Iterator[Tensor]:
        """Yield inner step ``step``'s loss chunk by chunk, each with a graph of its own; add to ``sums``."""
        for (number, parts), chunks in self._parts.items():
            if step % parts == number:
                for chunk in chunks:
                    yield chunk.loss(sums) * parts


def _minibatches(rows: Sequence[_Row], parts: int, minibatch: int) -> dict[tuple[tuple[int, int], float], list[_Row]]:
    """Return rows by ((minibatch, of how many), temperature); a game's rows are dealt out in turn."""
    by_game: dict[str, list[_Row]] = {}
    for row in rows:
        by_game.setdefault(row.game, []).append(row)
    dealt: dict[tuple[tuple[int, int], float], list[_Row]] = {}
    for own in by_game.values():
        count = min(parts, max(1, len(own) // minibatch))
        for number, row in enumerate(own):
            dealt.setdefault(((number % count, count), row.temperature), []).append(row)
    return dealt
