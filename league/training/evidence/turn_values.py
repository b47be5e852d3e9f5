"""What turns are worth, for the credit rules that ask: from the policies' critics, or from estimators that learn."""

from __future__ import annotations

from collections.abc import Sequence

from league.config import RunConfig
from league.training.checkpoints.learner_checkpoint import Learning
from learners.advantages.rule import Need
from learners.trajectories import Evidence, Trajectory
from learners.values import CRITIC, ESTIMATORS, with_estimates


def asked_of(config: RunConfig, game: str, role: str) -> str | None:
    """Return the estimator that a role's rule asks; None for a rule that asks none."""
    needs = config.credit.needs(game, role)
    asks = Need.VALUES in needs or Need.CONTRIBUTIONS in needs
    return config.values.estimator_for(game, role) if asks else None


def from_critic(config: RunConfig, game: str, role: str) -> bool:
    """Return whether a role's values are those of its policy's critic."""
    return asked_of(config, game, role) == CRITIC


def gather_evidence(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], from_play: Sequence[Evidence]
) -> list[Evidence]:
    """Return the evidence from play, with the turns' values or contributions where the rule of the role needs them.

    They are estimated before anything is learned from these trajectories.
    """
    evidence = list(from_play)
    for name, policy in state.policies.items():
        if policy.critic is not None:
            mine = [i for i, t in enumerate(trajectories) if t.policy == name and from_critic(config, t.game, t.role)]
            values = policy.critic.values(policy.lm, [trajectories[i] for i in mine], [evidence[i] for i in mine])
            for i, values_K in zip(mine, values, strict=True):
                evidence[i] = evidence[i]._replace(values=values_K)
    for name, indices in _by_estimator(config, trajectories).items():
        estimates = ESTIMATORS[name].estimate(
            [trajectories[i] for i in indices], state.values.get(name, {}), config.values.settings_of(name)
        )
        for i, numbers in zip(indices, estimates, strict=True):
            evidence[i] = with_estimates(evidence[i], name, numbers)
    return evidence


def learn_values(config: RunConfig, state: Learning, trajectories: Sequence[Trajectory]) -> None:
    """Let the estimators learn from an iteration's trajectories."""
    for name, indices in _by_estimator(config, trajectories).items():
        known, settings = state.values.get(name, {}), config.values.settings_of(name)
        learned = ESTIMATORS[name].learn([trajectories[i] for i in indices], known, settings)
        state.values = {**state.values, name: learned}


def _by_estimator(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[str, list[int]]:
    """Return the indices of the trajectories of each estimator that learns from them."""
    indices: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        name = asked_of(config, trajectory.game, trajectory.role)
        if name in ESTIMATORS:
            indices.setdefault(name, []).append(index)
    return indices
