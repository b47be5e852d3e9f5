"""The type of a value estimator: what it says about turns, how it is computed, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from pydantic import Field

from arena.records import Episode, MatchRequest
from games.common.registry import Entry
from games.common.section import NonNegative, Positive, Section
from games.spec import GameSpec
from learners.trajectories import Trajectory
from roles.role import Role

State = dict[str, Any]  # an estimator's learned state: plain JSON data, saved with the run
Estimates = list[tuple[float, ...]]  # one number for each turn of each trajectory
Columns = Mapping[str, Sequence[Any]]  # by source of evidence, a cell for each trajectory
PlayMatches = Callable[[list[MatchRequest]], list[Episode]]


class Estimated(StrEnum):
    """What the numbers are: the source of evidence whose cells they fill."""

    VALUES = "values"  # V(o_k): the seat's expected return to go from turn k
    CONTRIBUTIONS = "contributions"  # what turn k added


class How(Enum):
    """How an estimator computes its numbers, which decides what its ``make`` takes and returns."""

    LEARNED = "learned"  # from earlier matches: make(trajectories, state, settings) -> Estimates
    CRITIC = "critic"  # by the policy's own value heads: make(policy, trajectories, evidence) -> Estimates
    PLAY = "play"  # by continuing matches: make(trajectories, simulator, settings) -> Columns
    EXACT = "exact"  # by enumerating the whole game: as PLAY
    # from all matches so far, under the policies as they are: make(trajectories, state, probabilities, settings) ->
    # Columns and the state after the matches, where probabilities(states) are the policies' at remembered states
    REMEMBERED = "remembered"


class RememberedState(NamedTuple):
    """An information state of a seat with chosen replies: all that their probabilities depend on besides weights."""

    policy: str
    seat: int
    prompt: tuple[int, ...]  # token ids  # [P]
    mask: tuple[str, ...]  # the legal replies  # [A]
    temperature: float

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> RememberedState:
        """Return what JSON made of one."""
        if isinstance(row, cls):
            return row
        policy, seat, prompt, mask, temperature = row
        return cls(policy, seat, tuple(prompt), tuple(mask), temperature)


class ExactTurns(NamedTuple):
    """The exact worth of one trajectory's turns, in the trajectory's units."""

    advantages: tuple[float, ...]  # of the replies that were played  # [K]
    # of each legal reply, in the order of the turn's mask, its probability times its advantage  # [K][A]
    reply_credits: tuple[tuple[float, ...], ...]


class Simulator(NamedTuple):
    """What estimators that play get: an iteration's matches, and a way to play more with the same weights."""

    episodes: Mapping[int, Episode]  # by index, including submatches
    play: PlayMatches
    scales: Mapping[str, float]  # the divisor of each game's returns
    seed: Callable[[str], int]  # by purpose, for its draws in this iteration
    exact: Callable[[Sequence[Trajectory]], list[ExactTurns]]


class ValueFacts(NamedTuple):
    """What an estimator's check may depend on."""

    game: GameSpec
    roles: tuple[Role, ...]  # the trained ones, by seat
    credit: tuple[tuple[str, Section], ...] = ()  # the credit rule of each, and its settings
    truncated: bool = False  # replies are weighed by how likely the sampler and the learner find them
    magnet_rewards: bool = False  # rewards include the magnet's terms
    stated: tuple[str, ...] = ()  # the roles that it values, and whose drawn predictions are credited beside


@dataclass(frozen=True, slots=True)
class ValueEstimator(Entry[Callable[..., Any]]):
    """An estimator. Its functions change none of their arguments.

    ``make`` returns its numbers for the turns, see ``How``; a learned one sees nothing of the matches themselves but
    their rewards. ``check`` gets ``ValueFacts`` and the settings, and raises UsageError for a game whose turns it
    cannot value.
    """

    kind: Estimated = Estimated.VALUES
    how: How = How.LEARNED
    learn: Callable[[Sequence[Trajectory], State, Any], State] | None = None  # the state after more matches
    forget: Callable[[State, str], State] | None = None  # the state without what it holds about a policy


class Remembering(Section):
    """The settings of an estimator that learns from the matches that it remembers."""

    matches: Positive = Field(4096, description="a role's newest matches that are remembered")
    shrink: NonNegative = Field(32.0, description="ridge penalty on each weight, in turns")
