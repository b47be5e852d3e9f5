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


class Report(NamedTuple):
    """What a learner that is one of several tells of an iteration; JSON can hold it."""

    dropped: int  # trajectories that were too old to learn from
    advantages: dict[int, list[float]]  # of its policies' own trajectories, by place among all
    metrics: Metrics


def learn_own(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], iteration: int, update: Update = update
) -> Report:
    """Learn from an iteration as one of several learners, each of which has some of the policies.

    A rule may compare a trajectory with any other, so all are credited. Only ``gae_turn`` has to see its own policy's
    critic, and looks at one trajectory at a time: the others are left to their own learners.
    """
    places = [
        place
        for place, one in enumerate(trajectories)
        if one.policy in state.policies or config.credit.rule_for(one.game, one.role) != "gae_turn"
    ]
    learned = learn(config, state, [trajectories[place] for place in places], iteration, update)
    own = {
        place: advantages_K
        for place, advantages_K, one in zip(places, learned.advantages, learned.trajectories, strict=True)
        if one.policy in state.policies
    }
    return Report(0, own, learned.metrics)


def staleness(iteration: int, ahead: int) -> int:
    """Return how many updates lie between the weights that play an iteration and those that learn from it.

    Iteration k is played with the weights of after k − 1 − ``ahead``, the first ones with those of the beginning.
    """
    return min(ahead, iteration - 1)


def joined(reports: Sequence[Report], trajectories: Sequence[Trajectory], age: int) -> Learned:
    """Return what several learners learned from an iteration whose matches weights played that were ``age``
    updates old.
    """
    dropped = max(report.dropped for report in reports)
    if dropped:
        return Learned([], [], {"dropped": float(dropped)})
    advantages = {place: own for report in reports for place, own in report.advantages.items()}
    metrics = {name: value for report in reports for name, value in report.metrics.items()}
    gaps = [report.metrics["gap"] for report in reports if "gap" in report.metrics]
    metrics |= {"gap": max(gaps)} if gaps else {}
    metrics |= {"staleness": float(age)} if age else {}
    return Learned(trajectories, [advantages[place] for place in range(len(trajectories))], metrics)
