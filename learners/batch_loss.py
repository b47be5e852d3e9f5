"""A batch's loss, cut into minibatches and chunks for the inner steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from arena.lm import LanguageModel
from arena.scoring import plan_passes
from learners.batching import ChoiceRow, FreeRow, Pair, TrainBatch
from learners.loss_forms import ChoicePart, FreePart
from learners.loss_parts import Models
from learners.objective import Objective, Sums
from learners.preferences import Unit, together
from learners.team import ALONE, Team


class BatchLoss:
    """The losses of one batch, cut into minibatches for the inner steps.

    A game with many different prompts is spread over up to ``parts`` minibatches of at least
    ``minibatch`` rows, each weighing for the whole; a game with few is in every one. Paired free replies stay together.
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
        if objective.needs_reference and reference is None:
            raise ValueError("The objective needs a policy that keeps its reference: Policy(reference=True).")
        self._models = Models(
            lm, magnet if objective.magnet else None, reference if objective.needs_reference else None
        )
        self.held = [lm for lm in self._models[1:] if lm is not None]  # asked once, before the one in training
        self._objective, self._means, self._budget = objective, entropy_means or {}, budget
        self._parts: dict[tuple[int, int], list[ChoicePart | FreePart]] = {}  # by (minibatch, of how many)
        alone = [(number,) for number in range(len(batch.choice))]
        for (key, temperature), units in _minibatches(batch.choice, alone, parts, minibatch).items():
            rows = [batch.choice[number] for (number,) in team.share(units, batch.choice)]
            self._parts.setdefault(key, []).extend(self._of_choice(rows, temperature))
        pairs: dict[int, list[Pair]] = {}  # of free rows, by the chosen one
        for pair in batch.free_pairs:
            pairs.setdefault(pair.chosen, []).append(pair)
        grouped = together(batch.free, batch.free_pairs)
        for (key, temperature), units in _minibatches(batch.free, grouped, parts, minibatch).items():
            mine = team.share(units, batch.free)
            self._parts.setdefault(key, []).extend(self._of_free(batch.free, mine, pairs, temperature))

    def _of_choice(self, rows: Sequence[ChoiceRow], temperature: float) -> Iterator[ChoicePart]:
        """Yield rows of one temperature chunk by chunk."""
        tries = [self._models.lm.trie(row.legal) for row in rows]
        for chunk in self._models.lm.plan_choice([row.prompt for row in rows], tries, self._budget):
            yield ChoicePart(self._models, self._objective, self._means, chunk, rows, temperature)

    def _of_free(
        self, rows: Sequence[FreeRow], units: Sequence[Unit], pairs: Mapping[int, Sequence[Pair]], temperature: float
    ) -> Iterator[FreePart]:
        """Yield units of one temperature pass by pass. Rows of a unit have one prompt, and stay in one pass."""
        prompts, replies = [row.prompt for row in rows], [row.reply for row in rows]
        for one in plan_passes(self._models.lm, prompts, replies, self._budget, units):
            yield FreePart(self._models, self._objective, self._means, one, rows, temperature, pairs)

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


def _minibatches(
    rows: Sequence[ChoiceRow | FreeRow], units: Sequence[Unit], parts: int, minibatch: int
) -> dict[tuple[tuple[int, int], float], list[Unit]]:
    """Return units by ((minibatch, of how many), temperature); a game's units are dealt out in turn."""
    by_game: dict[str, list[Unit]] = {}
    for unit in units:
        by_game.setdefault(rows[unit[0]].game, []).append(unit)
    dealt: dict[tuple[tuple[int, int], float], list[Unit]] = {}
    for own in by_game.values():
        count = min(parts, max(1, len(own) // minibatch))
        for number, unit in enumerate(own):
            dealt.setdefault(((number % count, count), rows[unit[0]].temperature), []).append(unit)
    return dealt
