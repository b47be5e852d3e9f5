"""What an estimator of turn values is: what it says of turns, how it learns from matches, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from pydantic import Field

from games.common.section import NonNegative, Positive, Section
from games.spec import GameSpec
from learners.trajectories import Trajectory

State = dict[str, Any]  # what an estimator has learned: plain JSON data, saved with the run
Estimates = list[tuple[float, ...]]  # one number for each turn of each trajectory
SettingsT = TypeVar("SettingsT", bound=Section)


class Estimated(Enum):
    """What the numbers are."""

    VALUES = "values"  # V(o_k): what the seat still earns from turn k on
    CONTRIBUTIONS = "contributions"  # what turn k added


@dataclass(frozen=True, slots=True)
class ValueEstimator(Generic[SettingsT]):
    """An estimator; both functions change none of their arguments.

    ``estimate`` says of each turn what the state knows: nothing of the matches themselves but their own rewards.
    ``learn`` returns the state after learning from matches. ``forget`` drops what it holds of a policy.
    """

    kind: Estimated
    estimate: Callable[[Sequence[Trajectory], State, SettingsT], Estimates]
    learn: Callable[[Sequence[Trajectory], State, SettingsT], State]
    forget: Callable[[State, str], State]
    settings: type[SettingsT]
    check: Callable[[GameSpec], None] | None = None  # raises UsageError for a game whose turns it cannot value


class Remembering(Section):
    """The settings of an estimator that learns from the matches that it remembers."""

    matches: Positive = Field(4096, description="newest matches of a role that are remembered")
    shrink: NonNegative = Field(32.0, description="turns that pull each weight to 0 (ridge)")
