"""The loop's learner in the process that plays; ``learner_pool`` has learners in separate processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from league.config import RunConfig
from league.training.checkpoints.learner_checkpoint import Learning
from league.training.evidence.influence import influence_metrics
from league.training.evidence.regularised_rewards import regularise
from league.training.evidence.sources import gather_evidence
from league.training.evidence.turn_values import from_critic, learn_values
from league.training.interfaces import LearnResult
from league.training.learning.iteration import Metrics, Update, credit_turns, select_turns, update_policies
from learners.advantages import rule_metrics
from learners.trajectories import Evidence, Trajectory, TurnSelection
from learners.update.learner import update


class InProcessLearner:
    """Learns in the process that plays."""

    lead = 0

    def __init__(self, config: RunConfig, state: Learning) -> None:
        self._config, self._state = config, state
        self._submitted: dict[int, tuple[Sequence[Trajectory], Sequence[Evidence]]] = {}

    def begin(self) -> None:
        """Do nothing: policies are updated in place."""

    def submit(self, iteration: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> None:
        """Keep them until ``collect``."""
        self._submitted[iteration] = trajectories, evidence

    def ready(self, iteration: int) -> bool:
        """Return True: this process learns."""
        return True

    def collect(self, iteration: int) -> LearnResult:
        """Learn from the iteration now."""
        return learn(self._config, self._state, *self._submitted.pop(iteration), iteration)

    def recover(self) -> bool:
        """Return False: no process writes a checkpoint but this one."""
        return False


def learn(
    config: RunConfig,
    state: Learning,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    iteration: int,
    update: Update = update,
) -> LearnResult:
    """Credit every turn, and update the policies that are due with ``update``."""
    learned = regularise(config, state.policies, trajectories, iteration)
    evidence = gather_evidence(config, state, learned, evidence)
    credited = credit_turns(config, state, learned, evidence)
    learn_values(config, state, learned)
    chosen = select_turns(config, state, learned, evidence, credited)
    metrics = update_policies(config, state, *chosen, iteration, update)
    metrics |= rule_metrics(learned, credited, config.credit.rule_for, config.credit.settings_for)
    metrics |= influence_metrics(learned, evidence)
    selections = [facts.selection for facts in chosen.evidence[: len(trajectories)]] if config.selection.rules else []
    return LearnResult(trajectories, credited.advantages, metrics, selections)


class LearnerReport(NamedTuple):
    """One of several learners' result of an iteration; JSON can hold it."""

    dropped: int  # trajectories that were too old to learn from
    advantages: dict[int, list[float]]  # of its policies' trajectories, by index among all
    metrics: Metrics
    selections: Mapping[int, Sequence[Any]] = MappingProxyType({})  # of turns, of trajectories that have one, by index


def learn_subset(
    config: RunConfig,
    state: Learning,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    iteration: int,
    update: Update = update,
) -> LearnerReport:
    """Learn from an iteration as one of several learners, each of which has some of the policies.

    A credit rule may compare a trajectory with any other, so all are credited. Trajectories whose rule needs a critic's
    values are the exception: such a rule takes one trajectory at a time, and only the policy's own learner has the
    critic.
    """
    indices = [
        index
        for index, trajectory in enumerate(trajectories)
        if trajectory.policy in state.policies or not from_critic(config, trajectory.game, trajectory.role)
    ]
    credited = [trajectories[index] for index in indices]
    learned = learn(config, state, credited, [evidence[index] for index in indices], iteration, update)
    advantages = {
        index: advantages_K
        for index, advantages_K, trajectory in zip(indices, learned.advantages, learned.trajectories, strict=True)
        if trajectory.policy in state.policies
    }
    selections = {
        index: list(selection)
        for index, selection in zip(indices, learned.selections, strict=bool(learned.selections))
        if selection is not None and index in advantages
    }
    return LearnerReport(0, advantages, learned.metrics, selections)


def staleness(iteration: int, lead: int) -> int:
    """Return how many updates lie between the weights that play an iteration and those that learn from it.

    Iteration k is played with the weights after iteration k − 1 − ``lead``, or with the initial weights if there is
    none.
    """
    return min(lead, iteration - 1)


def merge_reports(
    reports: Sequence[LearnerReport], trajectories: Sequence[Trajectory], updates_behind: int
) -> LearnResult:
    """Return several learners' result of an iteration, played with weights that are ``updates_behind`` updates old."""
    dropped = max(report.dropped for report in reports)
    if dropped:
        return LearnResult([], [], {"dropped": float(dropped)})
    advantages = {index: advantages_K for report in reports for index, advantages_K in report.advantages.items()}
    metrics = {name: value for report in reports for name, value in report.metrics.items()}
    gaps = [report.metrics["gap"] for report in reports if "gap" in report.metrics]
    metrics |= {"gap": max(gaps)} if gaps else {}
    metrics |= {"staleness": float(updates_behind)} if updates_behind else {}
    of_turns = {index: TurnSelection(*cell) for report in reports for index, cell in report.selections.items()}
    selections = [of_turns.get(index) for index in range(len(trajectories))] if of_turns else []
    return LearnResult(trajectories, [advantages[index] for index in range(len(trajectories))], metrics, selections)
