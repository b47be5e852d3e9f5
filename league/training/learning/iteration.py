"""One iteration's learning: which policies train, from which turns, credited by which rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev

from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RunConfig
from league.config.schedules import imitation_at, objective_at, steps_at, term_weight_at
from league.training.checkpoints.learner_checkpoint import Learning
from learners.advantages import assign_credit
from learners.advantages.forks import share_among_forks
from learners.advantages.rule import Advantages, Credited, Need
from learners.advantages.trees import flat_siblings, sibling_pairs
from learners.batching import TrainBatch, to_batch
from learners.groups import flat_groups
from learners.imitated import ImitatedReply, draw_imitation
from learners.listening import listening_rows, predicted_rows
from learners.losses.objective import Objective
from learners.losses.whole_trajectories import labelled, paired
from learners.normalisation import count_rollout_tokens
from learners.rewards import reward_named
from learners.trajectories import Evidence, Trajectory, WholeTrajectories, return_scale
from learners.trajectory_buffer import TrajectoryBuffer
from learners.update.critic import Critic, critic_targets
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy

Metrics = dict[str, float]
Update = Callable[[Policy, TrainBatch, Objective, StepSettings], Metrics]


def learning_now(config: RunConfig, policies: Sequence[str], iteration: int) -> list[str]:
    """Return the policies that train in an iteration (counted from 1).

    All that are not frozen; with ``alternate`` one at a time, in the order of ``policies``.
    """
    trained = [name for name in policies if not config.policy(name).frozen]
    if config.alternate and trained:
        return [trained[(iteration - 1) // config.alternate % len(trained)]]
    return trained


def credit_turns(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
) -> Credited:
    """Return one advantage per turn and one weight per trajectory; updates the running baselines."""
    credit = config.credit
    credited = assign_credit(
        trajectories, evidence, state.credit, credit.rule_for, credit.settings_of, credit.settings_for
    )
    state.credit = credited.state
    return credited._replace(advantages=share_among_forks(trajectories, credited.advantages))


def credit_metrics(config: RunConfig, trajectories: Sequence[Trajectory], advantages: Advantages) -> Metrics:
    """Return the mean and spread of the advantages by role, the share of groups with equal returns, and what was paid
    where several rewards are weighed.
    """
    by_role: dict[str, list[float]] = {}
    for trajectory, advantages_K in zip(trajectories, advantages, strict=True):
        by_role.setdefault(f"{trajectory.game}/advantage/{trajectory.role}", []).extend(advantages_K)
    metrics: Metrics = {}
    for name, numbers in by_role.items():
        if numbers:
            metrics[f"{name}/mean"], metrics[f"{name}/spread"] = fmean(numbers), pstdev(numbers)
    metrics |= _reward_metrics(config, trajectories)
    for (game, role), (flat, groups) in _flat_groups(config, trajectories).items():
        metrics[f"{game}/flat_groups/{role}"] = flat / groups
    return metrics


def _reward_metrics(config: RunConfig, trajectories: Sequence[Trajectory]) -> Metrics:
    """Return the mean of each reward that a role's rule weighs, a match."""
    paid: dict[str, list[float]] = {}
    for trajectory in trajectories:
        game, role = trajectory.game, trajectory.role
        for name in config.credit.rewards(game, role):
            paid.setdefault(f"{game}/reward/{role}/{name}", []).append(reward_named(trajectory, name))
    return {name: fmean(numbers) for name, numbers in paid.items()}


def _flat_groups(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (game, role) how many groups or sets of siblings have equal returns, and how many there are."""
    if config.matchmaking.group_size > 1:
        return flat_groups(trajectories)
    seen = dict.fromkeys((trajectory.game, trajectory.role) for trajectory in trajectories)
    in_trees = {key for key in seen if Need.TREE in config.credit.needs(*key)}
    return flat_siblings([t for t in trajectories if (t.game, t.role) in in_trees])


def update_policies(
    config: RunConfig,
    state: Learning,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    credited: Credited,
    iteration: int,
    update: Update = update,
) -> Metrics:
    """Update every policy that has gathered enough; return their metrics by policy."""
    if config.objective.normalisation == "rollout_mean":
        evidence = count_rollout_tokens(trajectories, evidence, credited.weights)
    metrics: Metrics = {}
    for name, policy in state.policies.items():
        mine = [i for i, trajectory in enumerate(trajectories) if trajectory.policy == name]
        if mine:
            state.pending.setdefault(name, TrajectoryBuffer()).add(
                [trajectories[i] for i in mine],
                [evidence[i] for i in mine],
                [credited.advantages[i] for i in mine],
                [credited.weights[i] for i in mine],
            )
        if name in state.pending and _is_due(config, name, state.pending[name], iteration):
            gathered, imitated = state.pending.pop(name), state.imitated.get(name, ())
            results = _update(config, policy, gathered, imitated, iteration, update)
            metrics |= {f"{name}/{key}": value for key, value in results.items()}
            if "gap" in results:  # where matches ended before its first turn, there is nothing to compare
                metrics["gap"] = max(metrics.get("gap", 0.0), results["gap"])
    return metrics


def _with_given_texts(
    config: RunConfig,
    batch: TrainBatch,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    iteration: int,
) -> TrainBatch:
    """Return the batch with the answers of probes to listen for, and the texts of others to predict, where weighed."""
    listening = config.beliefs.listening
    if weight := term_weight_at(config, listening, iteration):
        factors = [listening.factor(one.game, one.role) for one in trajectories]
        batch = batch._replace(listening=listening_rows(trajectories, evidence, factors, weight))
    terms = config.prediction.terms
    weights = {name: term_weight_at(config, term, iteration) for name, term in terms.items()}
    if any(weights.values()):
        by_term = {name: [term.factor(one.game, one.role) for one in trajectories] for name, term in terms.items()}
        batch = batch._replace(prediction=predicted_rows(trajectories, evidence, by_term, weights))
    return batch


def _is_due(config: RunConfig, name: str, pending: TrajectoryBuffer, iteration: int) -> bool:
    """Return whether a policy has gathered enough; in the last iteration every policy has."""
    return pending.iterations >= config.policy(name).every or iteration == config.iterations


def _update(
    config: RunConfig,
    policy: Policy,
    gathered: TrajectoryBuffer,
    imitated: Sequence[ImitatedReply],
    iteration: int,
    update: Update,
) -> Metrics:
    """Update one policy, and its critic if it has one, on what it has gathered, and on what it imitates if anything."""
    share = imitation_at(config, iteration) if imitated else 0.0
    loss_weights = {game: (1.0 - share) * settings.loss_weight for game, settings in config.games.items()}
    max_matches = config.policy(policy.name).matches
    if max_matches is not None:
        gathered = gathered.subsample(max_matches)
    objective, trajectories = objective_at(config, iteration, policy.name), gathered.trajectories
    pairs = sibling_pairs(trajectories, _mid_returns(config, trajectories)) if objective.surrogate.name == "dpo" else []
    batch = to_batch(
        policy.name,
        trajectories,
        _weighted(gathered.advantages, config.objective.policy_gradient),
        loss_weights,
        objective.normalisation,
        weights=gathered.weights,
        evidence=gathered.evidence,
        pairs=pairs,
    )
    if objective.surrogate.judges_trajectories:
        batch = batch._replace(whole=_judged(config, objective.surrogate.name, batch, gathered, loss_weights))
    if share:
        seed = derive_seed(config.seed, "imitated replies", policy.name, iteration)
        batch = batch._replace(imitation=draw_imitation(imitated, config.imitation.replies, share, seed))
    batch = _with_given_texts(config, batch, trajectories, gathered.evidence, iteration)
    steps = steps_at(config, iteration, policy.name)
    metrics = update(policy, batch, objective, steps) | {"learning_rate": steps.learning_rate}
    if policy.critic is not None:
        metrics |= {f"critic/{key}": value for key, value in _fit_critic(policy, policy.critic, gathered).items()}
    if policy.updates % config.objective.magnet_every == 0:
        policy.refresh_magnet()
    return metrics


def _judged(
    config: RunConfig, surrogate: str, batch: TrainBatch, gathered: TrajectoryBuffer, loss_weights: Mapping[str, float]
) -> WholeTrajectories:
    """Return the whole trajectories of a batch as ``kto`` or ``dmpo`` judges them."""
    by_difference, trajectories = config.objective.preference_weight == "difference", gathered.trajectories
    if surrogate == "dmpo":
        return paired(batch, trajectories, gathered.weights, loss_weights, by_difference)
    return labelled(batch, trajectories, gathered.advantages, gathered.weights, loss_weights, by_difference)


def _weighted(advantages: Sequence[Sequence[float]], weight: float) -> Sequence[Sequence[float]]:
    """Return the advantages times the weight of the policy gradient."""
    return advantages if weight == 1.0 else [[weight * advantage for advantage in row] for row in advantages]


def _fit_critic(policy: Policy, critic: Critic, gathered: TrajectoryBuffer) -> Metrics:
    """Fit a critic to the targets of its values, where it gave any."""
    values = {i: evidence.values for i, evidence in enumerate(gathered.evidence) if evidence.values is not None}
    targets = critic_targets(list(values.values()), [gathered.advantages[i] for i in values])
    evidence = [gathered.evidence[i] for i in values]
    return critic.fit(policy.lm, [gathered.trajectories[i] for i in values], targets, evidence)


def _mid_returns(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the middle of each game's range of returns, in the units of the trajectories' returns."""
    specs = {name: make_game(name).spec for name in {trajectory.game for trajectory in trajectories}}
    return {
        name: (spec.min_return + spec.max_return) / 2 / (return_scale(spec) if config.credit.scale_returns else 1.0)
        for name, spec in specs.items()
    }
