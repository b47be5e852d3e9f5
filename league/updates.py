"""One iteration's learning: which policies train, from which turns, credited by which rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, pstdev

from games.registry import make_game
from league.config import RunConfig
from league.learning_state import Learning
from league.schedules import objective_at, steps_at
from learners.advantages import Credit, compute_advantages, weigh_trajectories
from learners.advantages.gae_turn import critic_targets
from learners.advantages.malt import flat_siblings, sibling_pairs
from learners.batching import TrainBatch, to_batch
from learners.groups import flat_groups
from learners.learner import Steps, update
from learners.normalisation import with_rollout_tokens
from learners.objective import Objective
from learners.pending import Pending
from learners.policy import Policy
from learners.trajectories import Trajectory, return_scale

Metrics = dict[str, float]
Advantages = list[list[float]]
Update = Callable[[Policy, TrainBatch, Objective, Steps], Metrics]


def learning_now(config: RunConfig, policies: Sequence[str], iteration: int) -> list[str]:
    """Return the policies that train in an iteration (counted from 1).

    All that are not frozen; with ``alternate`` one at a time, in the order of ``policies``.
    """
    trained = [name for name in policies if not config.policy(name).frozen]
    if config.alternate and trained:
        return [trained[(iteration - 1) // config.alternate % len(trained)]]
    return trained


def estimate_values(config: RunConfig, state: Learning, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories with their turns' values, where the rule of the role needs them."""
    valued = list(trajectories)
    for name, policy in state.policies.items():
        if policy.critic is not None:
            own = [
                i
                for i, one in enumerate(trajectories)
                if one.policy == name and config.credit.rule_for(one.game, one.role) == "gae_turn"
            ]
            values = policy.critic.values(policy.lm, [trajectories[i] for i in own])
            for i, values_K in zip(own, values, strict=True):
                valued[i] = trajectories[i]._replace(values=values_K)
    return valued


def weigh(config: RunConfig, state: Learning, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories with what each weighs in the loss, and the tokens of its rollout where they are asked."""
    weighed, state.credit = weigh_trajectories(trajectories, config.credit.rule_for, state.credit, _settings(config))
    return with_rollout_tokens(weighed) if config.objective.normalisation == "rollout_mean" else weighed


def credit_turns(config: RunConfig, state: Learning, trajectories: Sequence[Trajectory]) -> Advantages:
    """Return one advantage a turn; moves the running baselines on."""
    rule_for, settings = config.credit.rule_for, _settings(config)
    advantages, state.credit = compute_advantages(trajectories, rule_for, state.credit, settings)
    return advantages


def _settings(config: RunConfig) -> Credit:
    return Credit(*(getattr(config.credit, name) for name in Credit._fields))


def credit_metrics(config: RunConfig, trajectories: Sequence[Trajectory], advantages: Advantages) -> Metrics:
    """Return the mean and spread of the advantages by role, and the share of groups that tell nothing."""
    by_role: dict[str, list[float]] = {}
    for trajectory, advantages_K in zip(trajectories, advantages, strict=True):
        by_role.setdefault(f"{trajectory.game}/advantage/{trajectory.role}", []).extend(advantages_K)
    metrics: Metrics = {}
    for name, numbers in by_role.items():
        if numbers:
            metrics[f"{name}/mean"], metrics[f"{name}/spread"] = fmean(numbers), pstdev(numbers)
    for (game, role), (flat, groups) in _flat(config, trajectories).items():
        metrics[f"{game}/flat_groups/{role}"] = flat / groups
    return metrics


def _flat(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (game, role) how many groups, or sets of replies to the same, tell nothing, and how many there are."""
    if config.matchmaking.group_size > 1:
        return flat_groups(trajectories)
    return flat_siblings([one for one in trajectories if config.credit.rule_for(one.game, one.role) == "malt"])


def update_policies(
    config: RunConfig,
    state: Learning,
    trajectories: Sequence[Trajectory],
    advantages: Advantages,
    iteration: int,
    update: Update = update,
) -> Metrics:
    """Update every policy that has gathered enough; return their metrics by policy."""
    metrics: Metrics = {}
    for name, policy in state.policies.items():
        own = [i for i, trajectory in enumerate(trajectories) if trajectory.policy == name]
        if own:
            pending = state.pending.setdefault(name, Pending())
            pending.add([trajectories[i] for i in own], [advantages[i] for i in own])
        if name in state.pending and _is_due(config, name, state.pending[name], iteration):
            results = _update(config, policy, state.pending.pop(name), iteration, update)
            metrics |= {f"{name}/{key}": value for key, value in results.items()}
            if "gap" in results:  # where matches ended before its first turn, there is nothing to compare
                metrics["gap"] = max(metrics.get("gap", 0.0), results["gap"])
    return metrics


def _is_due(config: RunConfig, name: str, pending: Pending, iteration: int) -> bool:
    """Return whether a policy has gathered enough; the last iteration leaves nothing unused."""
    return pending.iterations >= config.policy(name).every or iteration == config.iterations


def _update(config: RunConfig, policy: Policy, gathered: Pending, iteration: int, update: Update) -> Metrics:
    """Update one policy, and its critic if it has one, on what it has gathered."""
    weights = {game: settings.loss_weight for game, settings in config.games.items()}
    most = config.policy(policy.name).matches
    if most is not None:
        gathered = gathered.spread(most)
    objective, own = objective_at(config, iteration, policy.name), gathered.trajectories
    pairs = sibling_pairs(own, _middles(config, own)) if objective.surrogate.name == "dpo" else []
    batch = to_batch(policy.name, own, gathered.advantages, weights, objective.normalisation, pairs=pairs)
    steps = steps_at(config, iteration, policy.name)
    metrics = update(policy, batch, objective, steps) | {"learning_rate": steps.learning_rate}
    if policy.critic is not None:
        valued = [i for i, one in enumerate(own) if one.values is not None]
        estimated, given = [own[i] for i in valued], [gathered.advantages[i] for i in valued]
        fitted = policy.critic.fit(policy.lm, estimated, critic_targets(estimated, given))
        metrics |= {f"critic/{key}": value for key, value in fitted.items()}
    if policy.updates % config.objective.magnet_every == 0:
        policy.refresh_magnet()
    return metrics


def _middles(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the middle of what a match can come to, by game, in the units of the trajectories' returns."""
    specs = {name: make_game(name).spec for name in {one.game for one in trajectories}}
    return {
        name: (spec.min_return + spec.max_return) / 2 / (return_scale(spec) if config.credit.scale_returns else 1.0)
        for name, spec in specs.items()
    }
