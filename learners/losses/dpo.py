"""``dpo``: direct preference optimisation (Rafailov et al., arXiv 2305.18290) between replies to one prompt.

L = -log sigmoid(beta (log pi(y) / ref(y) - log pi(z) / ref(z))) for a reply y that did better than its sibling z in a
tree of matches. Equal pairs are merged, their weights summed; a pair's replies go through the model in one pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from games.common.section import Section
from learners.advantages.trees import sibling_pairs
from learners.batching import Packed, ReplyPlace
from learners.groups import root_game_of
from learners.losses.term import ChunkTerm, LossContext, LossNeed, LossTerm, Term, UpdateFacts
from learners.normalisation import trace_of
from learners.trajectories import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

    from learners.losses.chunk import Fixed, PolicyOutput, RowChunk
    from learners.metric_sums import MetricSums


class Preference(Section):
    """The settings of a preference loss."""

    dpo_beta: float = Field(
        0.1, gt=0.0, description="dpo, dmpo, kto: beta, how strongly to stay near the policy before training"
    )


class Pair(NamedTuple):
    """Two replies to one prompt, the better one first."""

    chosen: ReplyPlace
    rejected: ReplyPlace
    multiplicity: float  # equal pairs that were merged
    weight: float  # sum of their weights in the batch's loss


class ReplyPairs(NamedTuple):
    """The rows of ``dpo``: pairs of replies that are in the batch."""

    pairs: tuple[Pair, ...]


def paired_replies(
    packed: Packed,
    trajectories: Sequence[Trajectory],
    pairs: Sequence[tuple[int, int]],
    loss_weights: Mapping[str, float],
) -> ReplyPairs:
    """Return pairs of trajectories, the better one first, as pairs of their last replies.

    All pairs of a game have the same weight, and their sum is the game's loss weight. Raises ValueError for a pair
    whose prompts differ.
    """
    merged: dict[tuple[ReplyPlace, ReplyPlace], Pair] = {}
    pairs_of_game = Counter((trajectories[c].game, root_game_of(trajectories[c])) for c, _ in pairs)
    for indices in pairs:
        chosen, rejected = (trajectories[index] for index in indices)
        better, worse = (packed.places[index][-1] for index in indices)
        prompts = [trace_of(trajectory, trajectory.turns[-1]).prompt_ids for trajectory in (chosen, rejected)]
        if prompts[0] != prompts[1]:
            raise ValueError(
                f"matches {chosen.match} and {rejected.match}: replies to different prompts do not make a pair"
            )
        assert better is not None, "a forced reply has no sibling"
        assert worse is not None, "a forced reply has no sibling"
        if not better.free:  # one row holds both, no matter which weights drew them
            worse = ReplyPlace(better.row, packed.batch.choice[better.row].legal.index(rejected.turns[-1].reply), False)
        weight = loss_weights.get(root_game_of(chosen), 1.0) / pairs_of_game[chosen.game, root_game_of(chosen)]
        pair = merged.get((better, worse), Pair(better, worse, 0.0, 0.0))
        merged[better, worse] = pair._replace(multiplicity=pair.multiplicity + 1, weight=pair.weight + weight)
    return ReplyPairs(tuple(merged.values()))


def dpo_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Return -log sigmoid(beta (chosen - rejected)), pair by pair; tensors have one shape.

    ``chosen`` and ``rejected`` are log pi(y) - log reference(y) of whole replies to one prompt, so it is log 2 a pair
    where the two policies are equal.
    """
    from torch.nn.functional import logsigmoid

    return -logsigmoid(beta * (chosen - rejected))


class Dpo(Term):
    """The pairs of one batch."""

    def __init__(self, context: LossContext) -> None:
        super().__init__(context)
        self._pairs: dict[tuple[bool, int], list[Pair]] = {}  # by the form and the row of the better reply
        for pair in context.rows.pairs if context.rows else ():
            self._pairs.setdefault((pair.chosen.free, pair.chosen.row), []).append(pair)

    def together(self) -> Iterable[tuple[int, int]]:
        """See ``Term``."""
        return [
            (pair.chosen.row, pair.rejected.row) for (free, _), pairs in self._pairs.items() if free for pair in pairs
        ]

    def on_chunk(self, chunk: RowChunk) -> ChunkTerm:
        """See ``Term``."""
        import torch

        from arena.lm.tensors import to_device

        row_of = {index: row for row, index in enumerate(chunk.indices)}
        pairs = [pair for index in chunk.indices for pair in self._pairs.get((chunk.free, index), ())]
        sides = [[pair.chosen for pair in pairs], [pair.rejected for pair in pairs]]
        chosen_P, rejected_P = (
            to_device([chunk.reply_index(row_of[p.row], p.reply) for p in replies], chunk.device, torch.long)
            for replies in sides
        )
        multiplicity_P = to_device([pair.multiplicity for pair in pairs], chunk.device)
        weight_P = to_device([pair.weight for pair in pairs], chunk.device)

        def loss(output: PolicyOutput, fixed: Fixed, sums: MetricSums) -> Tensor:
            assert fixed.reference is not None, "BatchLoss refuses dpo without a reference"
            preferred = chunk.by_reply(output.logprobs - fixed.reference)
            chosen, rejected = preferred[chosen_P], preferred[rejected_P]
            sums.add("pairs", multiplicity_P)
            sums.add("preferred", multiplicity_P * (chosen > rejected))
            sums.add("margin", multiplicity_P * (chosen - rejected))
            return (weight_P * dpo_loss(chosen, rejected, self.context.settings.dpo_beta)).sum()

        return loss


def _rows(facts: UpdateFacts, _settings: Preference) -> ReplyPairs:
    """Return the pairs of siblings in which only the first is good."""
    places = facts.packed.places
    pairs = [
        pair
        for pair in sibling_pairs(facts.trajectories, facts.mid_returns)
        if all(places[index][-1] is not None for index in pair)  # a reply that selection left out makes no pair
    ]
    return paired_replies(facts.packed, facts.trajectories, pairs, facts.loss_weights)


def pair_metrics(sums: MetricSums) -> dict[str, float]:
    """Return the number of pairs, the share whose better one is preferred, and the mean margin in nats."""
    if "pairs" not in sums.totals:  # nothing was played
        return {}
    return {"pairs": sums.totals["pairs"]} | {name: sums.mean(name, "pairs") for name in ("preferred", "margin")}


DPO = LossTerm(
    Dpo,
    Preference,
    frozenset({LossNeed.SIBLINGS, LossNeed.REFERENCE}),
    description="the better of two replies is preferred to the other",
    rows=_rows,
    metrics=pair_metrics,
)
