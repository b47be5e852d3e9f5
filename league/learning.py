"""How the loop learns: in the process that plays, or in processes of their own (``league.decoupled``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from league.config import RunConfig
from league.learning_state import Learning
from league.updates import Advantages, Metrics, Update, credit_turns, estimate_values, update_policies, weigh
from learners.learner import update
from learners.trajectories import Trajectory


class Learned(NamedTuple):
    """What one iteration's learning came to."""

    trajectories: Sequence[Trajectory]  # that were learned from
    advantages: Advantages  # by trajectory, by turn
    metrics: Metrics


class Learner(Protocol):
    """Where the loop's trajectories go and its weights come from."""

    ahead: int  # iterations that may be played before the weights of the one before them are there

    def begin(self) -> None:
        """Get ready: the run's state has been saved, and policies stand as it says."""
        ...

    def give(self, iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Hand over an iteration's trajectories, in the order of the iterations."""
        ...

    def take(self, iteration: int) -> Learned:
        """Return what was learned from an iteration; the policies of the run's state stand as after it."""
        ...


class LearnsHere:
    """Learning in the process that plays."""

    ahead = 0

    def __init__(self, config: RunConfig, state: Learning) -> None:
        self._config, self._state = config, state
        self._given: dict[int, Sequence[Trajectory]] = {}

    def begin(self) -> None:
        """Do nothing: policies learn in place."""

    def give(self, iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Keep them until they are asked for."""
        self._given[iteration] = trajectories

    def take(self, iteration: int) -> Learned:
        """Learn now."""
        return learn(self._config, self._state, self._given.pop(iteration), iteration)


def learn(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], iteration: int, update: Update = update
) -> Learned:
    """Credit every turn, and let ``update`` move the policies that are due."""
    trajectories = weigh(config, state, estimate_values(config, state, trajectories))
    advantages = credit_turns(config, state, trajectories)
    return Learned(
        trajectories, advantages, update_policies(config, state, trajectories, advantages, iteration, update)
    )
