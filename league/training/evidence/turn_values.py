"""What turns are worth, for the rules that ask: by estimators of play, by critics, or by what was learned."""

from __future__ import annotations

from collections.abc import Sequence

from league.config import RunConfig
from league.config.context import RunContext
from league.training.checkpoints.learner_checkpoint import Learning
from league.training.evidence.source import AfterPlay, BeforeLearning, Column, Source
from learners.advantages.rule import Need
from learners.trajectories import Trajectory
from learners.values import ESTIMATORS
from learners.values.estimator import How

OF_PLAY = (How.PLAY, How.EXACT)  # estimators of play, which are asked while the engine that played is awake


def estimator_for(config: RunConfig, game: str, role: str) -> str | None:
    """Return the estimator that a role's rule asks; None for a rule that asks none."""
    needs = config.credit.needs(game, role)
    asks = Need.VALUES in needs or Need.CONTRIBUTIONS in needs
    return config.values.estimator_for(game, role) if asks else None


def computed_by(config: RunConfig, game: str, role: str, *ways: How) -> bool:
    """Return whether a role's rule asks an estimator that computes in one of these ways."""
    name = estimator_for(config, game, role)
    return name is not None and ESTIMATORS[name].how in ways


def from_critic(config: RunConfig, game: str, role: str) -> bool:
    """Return whether a role's values are those of its policy's critic."""
    return computed_by(config, game, role, How.CRITIC)


def by_estimator(config: RunConfig, trajectories: Sequence[Trajectory], *ways: How) -> dict[str, list[int]]:
    """Return the indices of the trajectories by the estimator that they ask, of those that compute in these ways."""
    known: dict[tuple[str, str], str | None] = {}
    indices: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        key = trajectory.game, trajectory.role
        if key not in known:
            known[key] = estimator_for(config, *key) if computed_by(config, *key, *ways) else None
        if (name := known[key]) is not None:
            indices.setdefault(name, []).append(index)
    return indices


def learn_values(config: RunConfig, state: Learning, trajectories: Sequence[Trajectory]) -> None:
    """Let the estimators learn from an iteration's trajectories."""
    for name, indices in by_estimator(config, trajectories, How.LEARNED).items():
        known, settings = state.values.get(name, {}), config.values.settings_of(name)
        learn = ESTIMATORS[name].learn
        if learn is not None:
            state.values = {**state.values, name: learn([trajectories[i] for i in indices], known, settings)}


def estimated(config: RunConfig, learning: BeforeLearning) -> Column:
    """Return what critics and the estimators that learn say of each turn."""
    trajectories, state = learning.trajectories, learning.state
    column: list[tuple[float, ...] | None] = [None] * len(trajectories)
    for name, indices in by_estimator(config, trajectories, How.CRITIC).items():
        for policy in [policy for policy in state.policies.values() if policy.critic is not None]:
            mine = [i for i in indices if trajectories[i].policy == policy.name]
            known = [trajectories[i] for i in mine], [learning.evidence[i] for i in mine]
            for i, values_K in zip(mine, ESTIMATORS[name].make(policy, *known), strict=True):
                column[i] = values_K
    for name, indices in by_estimator(config, trajectories, How.LEARNED).items():
        known_of, settings = state.values.get(name, {}), config.values.settings_of(name)
        estimates = ESTIMATORS[name].make([trajectories[i] for i in indices], known_of, settings)
        for i, numbers in zip(indices, estimates, strict=True):
            column[i] = numbers
    return column


def asked_of_play(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role's rule asks an estimator of play, which may say more than the rule needs."""
    return computed_by(context.config, game, role, *OF_PLAY)


def _values(_context: RunContext, play: AfterPlay) -> Column:
    """Return an estimate of the return from each turn on."""
    return play.estimates.column(Need.VALUES, play.trajectories)


def _contributions(_context: RunContext, play: AfterPlay) -> Column:
    """Return an estimate of what each turn added."""
    return play.estimates.column(Need.CONTRIBUTIONS, play.trajectories)


def _reply_credits(_context: RunContext, play: AfterPlay) -> Column:
    """Return every legal reply's probability times its advantage, at each turn."""
    return play.estimates.column("reply_credits", play.trajectories)


VALUES = Source(_values, learner=estimated)
CONTRIBUTIONS = Source(_contributions, learner=estimated)
REPLY_CREDITS = Source(_reply_credits, asked=asked_of_play)
