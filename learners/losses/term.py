"""What a loss is: an entry with its settings, its needs, the rows that it adds to a batch, its loss and its metrics.

A *surrogate* is what ``objective.name`` chooses; *auxiliary* losses stand beside it where they have a weight. Both are
terms of one loss, and a batch, an update and its processes treat them alike. This module imports no torch, as no module
that declares a term does before it computes: the configuration reads the settings of all of them.
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
    SIBLINGS = "siblings"  # several replies to one prompt, and what each was worth: trees of matches
    COMPARISONS = "comparisons"  # several matches of one start
    SCORES = "scores"  # passes over the whole batch before each step


class ImitatedReply(NamedTuple):
    """A prompt, and how another player replied to it."""

    game: str
    prompt: Tokens
    legal: tuple[str, ...]  # what a ``choice`` reply is masked to; () for a free one
    reply: str
    tokens: Tokens  # of a free reply, end token included; () for a choice
    temperature: float
    times: int  # that it was given


class UpdateFacts(NamedTuple):
    """What the rows of an update's terms are made of: the matches of one policy, and how they were packed."""

    packed: Packed
    trajectories: Sequence[Trajectory]  # [N]
    evidence: Sequence[Evidence]  # [N]
    advantages: Sequence[Sequence[float]]  # of each turn, as the credit rule has them  # [N][K]
    weights: Sequence[float]  # of each trajectory; those of weight 0 have no rows  # [N]
    loss_weights: Mapping[str, float]  # of each game
    # by game: the middle of its range of returns, in the units of the trajectories'
    mid_returns: Mapping[str, float] = {}
    imitated: Sequence[ImitatedReply] = ()  # what the policy imitates
    seed_of: Callable[[str], int] = hash  # the seed of a stream of this update, by the stream's name


class LossContext(NamedTuple):
    """One batch, as a term of its loss gets it in one process."""

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
        """Return its weighted loss, summed, and add to ``sums`` what is reported."""
        raise NotImplementedError


class Term:
    """A term of one batch's loss, in one process. This one adds nothing; a term overrides what it has."""

    def __init__(self, context: LossContext) -> None:
        self.context = context

    def together(self) -> Iterable[tuple[int, int]]:
        """Return pairs of the batch's free rows, of one prompt, that must go through the model in one pass."""
        return ()

    def on_chunk(self, chunk: RowChunk) -> ChunkTerm | None:
        """Return what computes the term's loss of a chunk of the batch's rows; None where it has none there."""
        return None

    def own_rows(self) -> Sequence[Sequence[Row]]:
        """Return the rows that the term adds; each list is split over minibatches and processes by itself."""
        return ()

    def cut(self, rows: Sequence[Row], temperature: float) -> Iterable[OwnChunk]:
        """Cut rows of its own, of one temperature, into passes of at most ``context.max_tokens`` tokens."""
        return ()

    def score(self, chunks: Sequence[RowChunk]) -> list[list[float]]:
        """Return this process's part of numbers that a step needs first; they are summed over processes.

        Only terms that need ``SCORES`` are asked, before each step, which then takes the whole batch.
        """
        return []

    def weigh(self, chunks: Sequence[RowChunk], totals: Sequence[Sequence[float]]) -> None:
        """Take the sums over all processes of what ``score`` returned."""


@dataclass(frozen=True, slots=True)
class LossTerm(Entry[Callable[[LossContext], Term]]):
    """A loss. ``make`` gets a batch; ``needs`` are of ``LossNeed``.

    ``rows(facts, settings)`` returns what the term adds to the batch of an update, or None for nothing: named tuples of
    plain data, of type ``rows_type``, which other processes and files get as JSON. ``metrics`` reads an update's sums.
    """

    rows: Callable[[UpdateFacts, Any], Any] | None = None
    rows_type: Any = None
    metrics: Callable[[MetricSums], Mapping[str, float]] | None = None


class WeightedTerm(Section):
    """A term of the loss or of the rewards, with its weight over the run."""

    weight: NonNegative = Field(0.0, description="its weight at the start; 0: off")
    weight_end: NonNegative | None = Field(None, description="its weight at the end, reached geometrically; None: same")
    roles: dict[str, float] = Field(
        {}, description='what the weight is multiplied by for a role, as "game/role" = -1.0; 1 for those not named'
    )

    @property
    def on(self) -> bool:
        """Whether it ever has a weight."""
        return bool(self.weight or self.weight_end)

    def factor(self, game: str, role: str) -> float:
        """Return what the weight is multiplied by for a role."""
        return self.roles.get(f"{game}/{role}", 1.0)
