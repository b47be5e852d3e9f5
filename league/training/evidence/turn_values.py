"""Values of turns, for the rules that need them: from estimators that play, critics, or learned estimators."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum
from typing import TYPE_CHECKING

from league.config import RunConfig
from league.config.context import RunContext
from league.training.evidence.counterfactuals import PromptKey, reply_probabilities
from league.training.evidence.source import AfterPlay, BeforeLearning, Column, Source
from learners.advantages.rule import Need
from learners.normalisation import trace_of
from learners.trajectories import Trajectory
from learners.values import ESTIMATORS
from learners.values.estimator import How, RememberedState

if TYPE_CHECKING:  # torch is slow to import
    from league.training.checkpoints.learner_checkpoint import Learning

OF_PLAY = (How.PLAY, How.EXACT)  # estimators that play, which run while the engine that played is awake


def estimator_for(config: RunConfig, game: str, role: str) -> str | None:
    """Return the estimator that a role's rule uses; None for a rule that uses none."""
    needs = config.credit.needs(game, role)
    asks = Need.VALUES in needs or Need.CONTRIBUTIONS in needs
    return config.values.estimator_for(game, role) if asks else None


def computed_by(config: RunConfig, game: str, role: str, *ways: How) -> bool:
    """Return whether a role's rule uses an estimator that computes in one of these ways."""
    name = estimator_for(config, game, role)
    return name is not None and ESTIMATORS[name].how in ways


def from_critic(config: RunConfig, game: str, role: str) -> bool:
    """Return whether a role's values come from its policy's critic."""
    return computed_by(config, game, role, How.CRITIC)


def by_estimator(config: RunConfig, trajectories: Sequence[Trajectory], *ways: How) -> dict[str, list[int]]:
    """Return the indices of trajectories by the estimator that they use, of those that compute in these ways."""
    estimator_of: dict[tuple[str, str], str | None] = {}
    indices: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        key = trajectory.game, trajectory.role
        if key not in estimator_of:
            estimator_of[key] = estimator_for(config, *key) if computed_by(config, *key, *ways) else None
        if (name := estimator_of[key]) is not None:
            indices.setdefault(name, []).append(index)
    return indices


def learn_values(config: RunConfig, state: Learning, trajectories: Sequence[Trajectory]) -> None:
    """Update the learned estimators with an iteration's trajectories."""
    for name, indices in by_estimator(config, trajectories, How.LEARNED).items():
        estimator_state, settings = state.values.get(name, {}), config.values.settings_of(name)
        learn = ESTIMATORS[name].learn
        if learn is not None:
            state.values = {**state.values, name: learn([trajectories[i] for i in indices], estimator_state, settings)}


def estimator_needs(config: RunConfig, game: str, role: str) -> set[str]:
    """Return the sources of what a role's estimator says beyond what the rule needs."""
    return {"reply_credits"} if computed_by(config, game, role, How.REMEMBERED) else set()


def estimated(config: RunConfig, learning: BeforeLearning) -> Column:
    """Return the values or contributions of each turn from critics and learned estimators."""
    trajectories, state = learning.trajectories, learning.state
    column: list[tuple[float, ...] | None] = [None] * len(trajectories)
    for name, indices in by_estimator(config, trajectories, How.CRITIC).items():
        for policy in [policy for policy in state.policies.values() if policy.critic is not None]:
            of_policy = [i for i in indices if trajectories[i].policy == policy.name]
            arguments = [trajectories[i] for i in of_policy], [learning.evidence[i] for i in of_policy]
            for i, values_K in zip(of_policy, ESTIMATORS[name].make(policy, *arguments), strict=True):
                column[i] = values_K
    for name, indices in by_estimator(config, trajectories, How.LEARNED).items():
        estimator_state, settings = state.values.get(name, {}), config.values.settings_of(name)
        estimates = ESTIMATORS[name].make([trajectories[i] for i in indices], estimator_state, settings)
        for i, numbers in zip(indices, estimates, strict=True):
            column[i] = numbers
    for indices in by_estimator(config, trajectories, How.REMEMBERED).values():
        for i in indices:
            column[i] = _of_drawn(trajectories[i], learning.evidence[i].reply_credits or ())
    return column


def _of_drawn(trajectory: Trajectory, reply_credits: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the advantage of the reply that each turn drew: its credit by the probability that it was drawn with."""
    traces = [trace_of(trajectory, turn) for turn in trajectory.turns]
    return tuple(
        [
            by_reply[(trace.mask or ()).index(turn.reply)] / exp(fsum(trace.logprobs))
            for turn, trace, by_reply in zip(trajectory.turns, traces, reply_credits, strict=True)
        ]
    )


def credited_by_memory(config: RunConfig, learning: BeforeLearning) -> Column:
    """Return the credits of all replies by estimators that remember matches, which learn from these matches first."""
    trajectories, state = learning.trajectories, learning.state
    column: list[tuple[tuple[float, ...], ...] | None] = [None] * len(trajectories)

    def probabilities(states: Sequence[RememberedState]) -> list[tuple[float, ...] | None]:
        keys = [PromptKey(one.prompt, one.mask, one.temperature) for one in states]
        found: list[tuple[float, ...] | None] = [None] * len(states)
        for name, policy in state.policies.items():
            own = [i for i, one in enumerate(states) if one.policy == name]
            by_key = reply_probabilities(policy.lm, [keys[i] for i in own]) if own else {}
            for i in own:
                found[i] = by_key[keys[i]]
        return found

    for name, indices in by_estimator(config, trajectories, How.REMEMBERED).items():
        of_estimator, before = [trajectories[i] for i in indices], state.values.get(name, {})
        columns, after = ESTIMATORS[name].make(of_estimator, before, probabilities, config.values.settings_of(name))
        state.values = {**state.values, name: after}
        for i, by_reply in zip(indices, columns["reply_credits"], strict=True):
            column[i] = by_reply
    return column


def asked_of_play(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role's rule uses an estimator that plays, which may return more than the rule needs."""
    return computed_by(context.config, game, role, *OF_PLAY)


def _values(_context: RunContext, play: AfterPlay) -> Column:
    """Return an estimate of the return to go from each turn."""
    return play.estimates.column(Need.VALUES, play.trajectories)


def _contributions(_context: RunContext, play: AfterPlay) -> Column:
    """Return an estimate of what each turn added."""
    return play.estimates.column(Need.CONTRIBUTIONS, play.trajectories)


def _reply_credits(_context: RunContext, play: AfterPlay) -> Column:
    """Return every legal reply's probability times its advantage, at each turn."""
    return play.estimates.column("reply_credits", play.trajectories)


VALUES = Source(_values, learner=estimated)
CONTRIBUTIONS = Source(_contributions, learner=estimated)
REPLY_CREDITS = Source(_reply_credits, learner=credited_by_memory, asked=asked_of_play)
