"""The type of a rule of selection: a pure step between credit and update that weighs a batch's turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from games.common.registry import Entry
from games.spec import GameSpec
from learners.advantages.rule import Advantages, State
from learners.trajectories import Evidence, Trajectory

TurnWeights = list[list[float]]  # [N][K]


class CreditedBatch(NamedTuple):
    """Trajectories with their credit, as the rules before this one left them."""

    trajectories: Sequence[Trajectory]  # [N]
    evidence: Sequence[Evidence]  # [N]
    advantages: Advantages  # [N][K]
    weights: TurnWeights  # of each turn in the loss, its trajectory's from the credit rule included  # [N][K]


class Replayed(NamedTuple):
    """A trajectory of an earlier iteration that is learned from again."""

    trajectory: Trajectory
    advantages: tuple[float, ...]  # [K]


class Selection(NamedTuple):
    """What a rule makes of a batch."""

    factors: TurnWeights  # what each turn's weight is multiplied by: 0 leaves it out  # [N][K]
    state: State | None = None  # what it remembers for the next iteration; None: nothing
    advantages: Advantages | None = None  # in place of the credit rule's; None: those
    replayed: Sequence[Replayed] = ()


class SelectionFacts(NamedTuple):
    """What a rule's check may depend on."""

    game: GameSpec
    group_size: int  # matches of one start
    starts_return: bool  # whether starts are drawn from a pool, so that one may be played in several iterations
    truncates: bool  # whether turns weigh by p learner / p sampler, truncated


SelectionFunction = Callable[[CreditedBatch, State, Any], Selection]


@dataclass(frozen=True, slots=True)
class SelectionRule(Entry[SelectionFunction]):
    """A rule. ``make`` changes none of its arguments; ``needs`` are names of sources of evidence.

    ``check`` gets ``SelectionFacts``, and raises UsageError for a run that it cannot serve.
    """

    reason: str = ""  # a sentence: why a turn that it leaves out weighs nothing
    forget: Callable[[State, str], State] | None = None  # the state without what it holds about a policy; None: nothing


def keep_all(batch: CreditedBatch) -> TurnWeights:
    """Return the factor 1 for every turn."""
    return [[1.0] * len(trajectory.turns) for trajectory in batch.trajectories]


def by_trajectory(batch: CreditedBatch, factors_N: Sequence[float]) -> TurnWeights:
    """Return the factors of trajectories for each of their turns."""
    return [[factor] * len(t.turns) for t, factor in zip(batch.trajectories, factors_N, strict=True)]
