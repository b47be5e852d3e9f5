"""The type of an evidence source: how it gathers one column of ``Evidence``, and for which roles.

A credit rule names sources in its ``needs``; ``asked`` says whether a loss needs one. Other roles' trajectories are
not passed to it. ``league.training.evidence.sources`` lists the sources and calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from arena.records import Episode
from games.common.registry import Entry
from league.config import RunConfig
from league.config.context import RunContext
from learners.trajectories import Evidence, Trajectory

if TYPE_CHECKING:  # torch is slow to import
    from league.training.checkpoints.learner_checkpoint import Learning
    from learners.update.policy import Policy

Column = Sequence[Any]  # a cell of ``Evidence`` for each trajectory; None: nothing is known about it  # [N]


class MonteCarloEstimates(NamedTuple):
    """The numbers of estimators that play; trajectories that use no such estimator are left out."""

    columns: Mapping[str, Mapping[tuple[int, int], Any]]  # by column, and by match and seat

    def column(self, name: str, trajectories: Sequence[Trajectory]) -> list[Any]:
        """Return the cell of each trajectory; None where there is none."""
        cells = self.columns.get(name, {})
        return [cells.get((trajectory.match, trajectory.seat)) for trajectory in trajectories]


NO_ESTIMATES = MonteCarloEstimates({})


class Advisor(Protocol):
    """Access to the run's teachers."""

    def advise(self, matches: Mapping[int, Episode], trajectories: Sequence[Trajectory]) -> Column:
        """Return the teachers' scores for each trajectory's turns."""
        ...


@dataclass(frozen=True)
class AfterPlay:
    """An iteration after play, as sources on the machine that played see it."""

    trajectories: Sequence[Trajectory]  # those whose roles need the source  # [N]
    matches: Mapping[int, Episode]  # by index, including submatches
    policies: Mapping[str, Policy]  # with the weights that the matches were played with
    teachers: Advisor | None = None
    estimates: MonteCarloEstimates = NO_ESTIMATES


class BeforeLearning(NamedTuple):
    """An iteration before learning, as sources in the learner see it."""

    state: Learning
    trajectories: Sequence[Trajectory]  # those whose roles need the source  # [N]
    evidence: Sequence[Evidence]  # what is already known about them  # [N]


@dataclass(frozen=True, slots=True)
class Source(Entry[Callable[[RunContext, AfterPlay], Column] | None]):
    """A source. ``make(context, play)`` gathers its column after play, ``learner`` in the learner before learning.

    Either is None where nothing is known at that time. ``check(rule, facts)`` gets the credit rule that needs it and
    its ``CreditFacts``, and raises UsageError for a game that the source knows nothing about.
    """

    learner: Callable[[RunConfig, BeforeLearning], Column] | None = None
    asked: Callable[[RunContext, str, str], bool] | None = None  # whether a loss needs it for a game's role
