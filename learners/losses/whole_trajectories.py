"""Whole trajectories, for losses that judge all that a seat said in a match at once (``kto``, ``dmpo``).

A trajectory is scored by its log-ratios, S = sum_k w_k (log pi(y_k | x_k) - log reference(y_k | x_k)) over its own
turns k, each reply y_k given its own prompt x_k; the others' messages are part of the prompts and have no term.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from arena.lm.chunks import Tokens
from learners.batching import ReplyPlace
from learners.losses.term import LossNeed

NEEDS = frozenset({LossNeed.REFERENCE, LossNeed.SCORES})
PreferenceWeight = Annotated[
    Literal["equal", "difference"],
    Field(
        description="kto, dmpo: the weight of a match or pair; difference: by how much a match did better or worse "
        "than expected, or one match of the pair better than the other"
    ),
]


class ScoredTrajectory(NamedTuple):
    """One trajectory that is scored."""

    role: str  # GAME/ROLE
    turns: tuple[ReplyPlace | None, ...]  # None: a forced reply, whose log-prob is 0  # [K]
    desirable: bool = False
    weight: float = 0.0  # in the batch's loss; 0 where pairs have weights
    mismatched: tuple[int, ...] = ()  # indices of ``WholeTrajectories.mismatched``


class TrajectoryPair(NamedTuple):
    """Two trajectories of one role from one start, the better one first, as indices of the scored ones."""

    chosen: int
    rejected: int
    weight: float  # in the batch's loss


class MismatchedReply(NamedTuple):
    """A free reply of one trajectory after the prompt of another of its role."""

    prompt: Tokens
    reply: Tokens
    temperature: float


class WholeTrajectories(NamedTuple):
    """The rows of a loss of whole trajectories, beside the batch's own rows."""

    scored: tuple[ScoredTrajectory, ...]  # [N]
    pairs: tuple[TrajectoryPair, ...] = ()
    mismatched: tuple[MismatchedReply, ...] = ()
