"""Given replies: rows that a term adds to a batch, whose loss is their cross-entropy under the policy.

Imitation, listening and prediction differ only in which replies they give and in their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from learners.batching import ChoiceRow, FreeRow
from learners.losses.term import LossContext, OwnChunk, Row, Term

if TYPE_CHECKING:
    from learners.metric_sums import MetricSums

SumNames = tuple[str, str]  # of the loss, and of the number of tokens


class GivenRows(NamedTuple):
    """Replies that were not sampled here: how often each was drawn, and the weight of its tokens in the loss."""

    choice: tuple[ChoiceRow, ...] = ()
    free: tuple[FreeRow, ...] = ()


class GivenReplies(Term):
    """The given replies of one batch; ``names`` are the names of their loss and their tokens in the sums."""

    def __init__(self, context: LossContext, names: SumNames) -> None:
        super().__init__(context)
        self._names = names

    def own_rows(self) -> Sequence[Sequence[Row]]:
        """See ``Term``."""
        return self.context.rows.choice, self.context.rows.free

    def cut(self, rows: Sequence[Row], temperature: float) -> Iterable[OwnChunk]:
        """See ``Term``."""
        from learners.losses.given_replies import given_chunks

        return given_chunks(self.context.models, rows, temperature, self.context.max_tokens, self._names)


def given_replies(names: SumNames) -> Callable[[LossContext], Term]:
    """Return the ``make`` of a term whose rows are ``GivenRows``."""
    return lambda context: GivenReplies(context, names)


def given_metrics(names: SumNames) -> Callable[[MetricSums], dict[str, float]]:
    """Return the metrics of such a term: its cross-entropy before the update, in nats a token, as NAME/loss."""
    loss, tokens = names
    return lambda sums: {f"{loss}/loss": sums.mean(loss, tokens)} if tokens in sums.totals else {}


def empty_choice(game: str, prompt: tuple[int, ...], legal: tuple[str, ...], temperature: float) -> ChoiceRow:
    """Return a choice row of zero counts and weights, to add to."""
    counts, weights, gains, losses = ([0.0] * len(legal) for _ in range(4))
    return ChoiceRow(game, game, prompt, legal, temperature, counts, weights, gains, losses)
