"""What a source of evidence is: how one column of ``Evidence`` comes about, and which roles it is asked for.

A credit rule names sources in its ``needs``; a loss is asked for by ``asked``. No other role's trajectories are looked
at. ``league.training.evidence.sources`` lists the sources and asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from arena.records import Episode
from games.common.registry import Entry
from league.config import RunConfig
from league.config.context import RunContext
from league.training.checkpoints.learner_checkpoint import Learning
from learners.trajectories import Evidence, Trajectory

if TYPE_CHECKING:
    from learners.update.policy import Policy

Column = Sequence[Any]  # a cell of ``Evidence`` for each trajectory; None: nothing is known of it  # [N]


class MonteCarloEstimates(NamedTuple):
    """What estimators of play said of turns; trajectories that ask no such estimator are left out."""

    columns: Mapping[str, Mapping[tuple[int, int], Any]]  # by column, and by match and seat

    def column(self, name: str, trajectories: Sequence[Trajectory]) -> list[Any]:
        """Return the cell of each trajectory; None where there is none."""
        cells = self.columns.get(name, {})
        return [cells.get((one.match, one.seat)) for one in trajectories]


NO_ESTIMATES = MonteCarloEstimates({})


class Advisor(Protocol):
    """Who knows the run's teachers."""

    def advise(self, matches: Mapping[int, Episode], trajectories: Sequence[Trajectory]) -> Column:
        """Return what teachers say to each trajectory's turns."""
        ...


@dataclass(frozen=True)
class AfterPlay:
    """An iteration after play: what sources are asked about, on the machine that played."""

    trajectories: Sequence[Trajectory]  # those whose roles ask the source  # [N]
    matches: Mapping[int, Episode]  # by index, those that others opened too
    policies: Mapping[str, Policy]  # with the weights that the matches were played with
    teachers: Advisor | None = None
    estimates: MonteCarloEstimates = NO_ESTIMATES


class BeforeLearning(NamedTuple):
    """An iteration in the learner, before anything is learned from it: what sources are asked about there."""

    state: Learning
    trajectories: Sequence[Trajectory]  # those whose roles ask the source  # [N]
    evidence: Sequence[Evidence]  # what is known of them already  # [N]


@dataclass(frozen=True, slots=True)
class Source(Entry[Callable[[RunContext, AfterPlay], Column] | None]):
    """A source. ``make(context, play)`` gathers its column after play, ``learner`` in the learner before learning.

    Either is None where nothing is known then. ``check(rule, facts)`` gets the credit rule that needs it and its
    ``CreditFacts``: it raises UsageError for a game of which it knows nothing.
    """

    learner: Callable[[RunConfig, BeforeLearning], Column] | None = None
    asked: Callable[[RunContext, str, str], bool] | None = None  # whether a loss asks for it of a game's role
