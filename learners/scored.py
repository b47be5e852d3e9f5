"""Trajectories that are scored as a whole: what an update keeps of them beside the rows of its batch."""

from __future__ import annotations

from typing import NamedTuple

from arena.lm.chunks import Tokens


class ReplyPlace(NamedTuple):
    """Where the log-prob of a turn's reply is computed."""

    row: int  # index of the batch's choice rows, or of its free rows
    reply: int  # index of the row's legal replies; 0 in a free row
    free: bool


class ScoredTrajectory(NamedTuple):
    """One trajectory of a whole-trajectory objective."""

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
    """A free reply of one trajectory behind the prompt of another of its role."""

    prompt: Tokens
    reply: Tokens
    temperature: float


class WholeTrajectories(NamedTuple):
    """What a whole-trajectory objective is computed from, beside the rows of its batch."""

    scored: tuple[ScoredTrajectory, ...]  # [N]
    pairs: tuple[TrajectoryPair, ...] = ()
    mismatched: tuple[MismatchedReply, ...] = ()
