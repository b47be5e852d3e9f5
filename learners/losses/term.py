"""The type of a loss: an entry with its settings, needs, the rows that it adds to a batch, its loss and its metrics.

``objective.name`` chooses a *surrogate*; *auxiliary* losses are added where they have a weight. Both are terms of one
loss, and a batch, an update and its processes treat them alike. Like every module that declares a term, this one does
not import torch before it computes, because the configuration reads the settings of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from arena.lm.chunks import Tokens
from games.common.registry import Entry
from games.common.section import NonNegative, Section
from learners.batching import ChoiceRow, FreeRow, Packed, TrainBatch
from learners.trajectories import Evidence, Trajectory

if TYPE_CHECKING:
    from torch import Tensor

    from learners.losses.chunk import Fixed, Models, PolicyOutput, RowChunk
    from learners.metric_sums import MetricSums
    from learners.parallel.process_group import ProcessGroup


class LossNeed(Enum):
    """What a run must have for a surrogate."""

    ADVANTAGES = "advantages"  # it weighs the advantages of a credit rule, as a policy gradient does
    REFERENCE = "reference"  # the policy's weights from before training
    SIBLINGS = "siblings"  # several replies to one prompt, and the value of each: trees of matches
    COMPARISONS = "comparisons"  # several matches of one start
    SCORES = "scores"  # passes over the whole batch before each step


class ImitatedReply(NamedTuple):
    """A prompt, and another player's reply to it."""

    game: str
    prompt: Tokens
    legal: tuple[str, ...]  # what a ``choice`` reply is masked to; () for a free one
    reply: str
    tokens: Tokens  # of a free reply, end token included; () for a choice
    temperature: float
    times: int  # how often it was given


class UpdateFacts(NamedTuple):
    """The data from which the rows of an update's terms are made: one policy's matches, and how they were packed."""

    packed: Packed
    trajectories: Sequence[Trajectory]  # [N]
    evidence: Sequence[Evidence]  # [N]
    advantages: Sequence[Sequence[float]]  # of each turn, from the credit rule  # [N][K]
    weights: Sequence[float]  # of each trajectory; those of weight 0 have no rows  # [N]
    loss_weights: Mapping[str, float]  # of each game
    # by game: the middle of its range of returns, in the trajectories' units
    mid_returns: Mapping[str, float] = {}
    imitated: Sequence[ImitatedReply] = ()  # what the policy imitates
    seed_of: Callable[[str], int] = hash  # the seed of a stream of this update, by the stream's name


class LossContext(NamedTuple):
    """One batch, as one process passes it to a term of the loss."""

    models: Models
    batch: TrainBatch
    rows: Any  # the term's own: ``batch.terms[NAME]``; None where it has none
    settings: Any
    max_tokens: int  # in one pass
    process_group: ProcessGroup


Row = ChoiceRow | FreeRow
ChunkTerm = Callable[["PolicyOutput", "Fixed", "MetricSums"], "Tensor"]  # the weighted loss of a chunk, summed


class OwnChunk:
    """One pass over rows that a term adds to the batch."""

    def loss(self, sums: MetricSums) -> Tensor:
        """Return its weighted loss, summed, and add its metrics to ``sums``."""
        raise NotImplementedError


class Term:
    """A term of one batch's loss, in one process. The base class adds nothing; a term overrides what it has."""

    def __init__(self, context: LossContext) -> None:
        self.context = context

    def together(self) -> Iterable[tuple[int, int]]:
        """Return pairs of the batch's free rows, of one prompt, that must go through the model in one pass."""
        return ()

    def on_chunk(self, chunk: RowChunk) -> ChunkTerm | None:
        """Return a function that computes the term's loss of a chunk of the batch's rows; None if it has none."""
        return None

    def own_rows(self) -> Sequence[Sequence[Row]]:
        """Return the rows that the term adds; each list is split over minibatches and processes separately."""
        return ()

    def cut(self, rows: Sequence[Row], temperature: float) -> Iterable[OwnChunk]:
        """Cut its own rows, of one temperature, into passes of at most ``context.max_tokens`` tokens."""
        return ()

    def score(self, chunks: Sequence[RowChunk]) -> list[list[float]]:
        """Return this process's part of the scores that a step needs first; they are summed over processes.

        Called before each step, and only for terms that need ``SCORES``; such a step takes the whole batch.
        """
        return []

    def weigh(self, chunks: Sequence[RowChunk], totals: Sequence[Sequence[float]]) -> None:
        """Take the sums over all processes of what ``score`` returned."""


@dataclass(frozen=True, slots=True)
class LossTerm(Entry[Callable[[LossContext], Term]]):
    """A loss. ``make`` gets a batch; ``needs`` are of ``LossNeed``.

    ``rows(facts, settings)`` returns what the term adds to the batch of an update, or None for nothing: named tuples of
    plain data, which other processes get, and the file of a failed batch as JSON. ``metrics`` reads an update's sums.
    """

    rows: Callable[[UpdateFacts, Any], Any] | None = None
    metrics: Callable[[MetricSums], Mapping[str, float]] | None = None


class WeightedTerm(Section):
    """A term of the loss or of the rewards, with its weight over the run."""

    weight: NonNegative = Field(0.0, description="its weight at the start; 0: off")
    weight_end: NonNegative | None = Field(None, description="its weight at the end, reached geometrically; None: same")
    roles: dict[str, float] = Field(
        {}, description='factor on the weight by role, as "game/role" = -1.0; 1 for roles not named'
    )

    @property
    def on(self) -> bool:
        """Whether it ever has a weight."""
        return bool(self.weight or self.weight_end)

    def factor(self, game: str, role: str) -> float:
        """Return the factor by which the weight is multiplied for a role."""
        return self.roles.get(f"{game}/{role}", 1.0)
