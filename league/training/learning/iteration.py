"""One iteration's learning: which policies train, on which turns, credited by which rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RunConfig
from league.config.schedules import auxiliary_at, imitation_at, objective_at, steps_at, term_weight_at
from league.training.checkpoints.learner_checkpoint import Learning
from learners.advantages import assign_credit
from learners.advantages.forks import share_among_forks
from learners.advantages.rule import Credited
from learners.advantages.stated import with_stated
from learners.batching import TrainBatch, pack
from learners.losses import AUXILIARY, LOSSES
from learners.losses.objective import Objective
from learners.losses.term import ImitatedReply, UpdateFacts
from learners.normalisation import count_rollout_tokens
from learners.selection import select
from learners.selection.rule import CreditedBatch
from learners.trajectories import Evidence, Trajectory, TurnSelection, return_scale
from learners.trajectory_buffer import TrajectoryBuffer
from learners.update.critic import Critic, critic_targets
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy

Metrics = dict[str, float]
Update = Callable[[Policy, TrainBatch, Objective, StepSettings], Metrics]


def learning_now(config: RunConfig, policies: Sequence[str], iteration: int) -> list[str]:
    """Return the policies that train in an iteration (counted from 1).

    All that are not frozen; with ``alternate``, one at a time, in the order of ``policies``.
    """
    trained = [name for name in policies if not config.policy(name).frozen]
    if config.alternate and trained:
        return [trained[(iteration - 1) // config.alternate % len(trained)]]
    return trained


def credit_turns(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
) -> Credited:
    """Return one advantage per turn and one weight per trajectory; update the running baselines."""
    credit = config.credit
    credited = assign_credit(
        trajectories, evidence, state.credit, credit.rule_for, credit.settings_of, credit.settings_for
    )
    state.credit = credited.state
    return credited._replace(advantages=share_among_forks(trajectories, credited.advantages))


class Learned(NamedTuple):
    """What an update learns from: an iteration's trajectories, and those that are replayed."""

    trajectories: Sequence[Trajectory]  # [N]
    evidence: Sequence[Evidence]  # with the selection of their turns  # [N]
    credited: Credited


def select_turns(
    config: RunConfig,
    state: Learning,
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    credited: Credited,
) -> Learned:
    """Return what the rules of selection leave of credited trajectories; update what they remember.

    Without rules nothing is changed.
    """
    rules = config.selection.rules
    if not rules:
        return Learned(trajectories, evidence, credited)
    weights = [[float(w)] * len(t.turns) for t, w in zip(trajectories, credited.weights, strict=True)]
    batch = CreditedBatch(trajectories, evidence, credited.advantages, weights)
    selected = select(batch, rules, state.credit, config.selection.settings_of)
    state.credit = selected.state
    chosen = [
        facts.with_cells(selection=_of_turns(turns, weight))
        for facts, turns, weight in zip(evidence, selected.turns, credited.weights, strict=True)
    ]
    again = selected.replayed
    return Learned(
        [*trajectories, *(one.trajectory for one in again)],
        chosen + [Evidence()] * len(again),
        Credited(
            credited.advantages + [list(one.advantages) for one in again],
            credited.weights + [1.0] * len(again),
            credited.state,
        ),
    )


def _of_turns(turns: TurnSelection, weight: float) -> TurnSelection:
    """Return turns' selection with weights beside that of their trajectory, which a batch multiplies by."""
    return turns._replace(weights=tuple([turn_weight / weight if weight else 0.0 for turn_weight in turns.weights]))


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
        indices = [i for i, trajectory in enumerate(trajectories) if trajectory.policy == name]
        if indices:
            state.pending.setdefault(name, TrajectoryBuffer()).add(
                [trajectories[i] for i in indices],
                [evidence[i] for i in indices],
                [credited.advantages[i] for i in indices],
                [credited.weights[i] for i in indices],
            )
        if name in state.pending and _is_due(config, name, state.pending[name], iteration):
            buffer, imitated = state.pending.pop(name), state.imitated.get(name, ())
            results = _update(config, policy, buffer, imitated, iteration, update)
            metrics |= {f"{name}/{key}": value for key, value in results.items()}
            if "gap" in results:  # if all matches ended before its first turn, there is nothing to compare
                metrics["gap"] = max(metrics.get("gap", 0.0), results["gap"])
    return metrics


def _is_due(config: RunConfig, name: str, pending: TrajectoryBuffer, iteration: int) -> bool:
    """Return whether a policy has gathered enough; in the last iteration every policy has.

    Where tokens are counted, the lengths of replies decide how many iterations make an update. It counts whole draws,
    and what stops it is known when it stops, so a sum over an update's matches is, on average, the mean of one match
    times that of their number (Wald's identity): long replies and short ones weigh as they were drawn.
    """
    settings = config.policy(name)
    gathered = pending.iterations >= settings.every and (not settings.tokens or pending.tokens >= settings.tokens)
    return gathered or iteration == config.iterations


def _update(
    config: RunConfig,
    policy: Policy,
    gathered: TrajectoryBuffer,
    imitated: Sequence[ImitatedReply],
    iteration: int,
    update: Update,
) -> Metrics:
    """Update one policy, and its critic if it has one, on its gathered trajectories and replies to imitate."""
    share = imitation_at(config, iteration) if imitated else 0.0
    loss_weights = {game: (1.0 - share) * settings.loss_weight for game, settings in config.games.items()}
    max_matches = config.policy(policy.name).matches
    if max_matches is not None:
        gathered = gathered.subsample(max_matches)
    advantages = [
        row if facts.selection is None else facts.selection.advantages
        for facts, row in zip(gathered.evidence, gathered.advantages, strict=True)
    ]
    if policy.critic is not None and iteration <= config.critic.warmup:
        return _fit_critic(policy, policy.critic, gathered)
    objective = objective_at(config, iteration, policy.name)
    packed = pack(
        policy.name,
        gathered.trajectories,
        _with_predictions(config, gathered, _weighted(advantages, config.objective.policy_gradient), iteration),
        loss_weights,
        objective.normalisation,
        weights=gathered.weights,
        evidence=_of_all_replies(gathered.evidence, config.objective.policy_gradient),
    )
    facts = UpdateFacts(
        packed,
        *(gathered.trajectories, gathered.evidence, advantages, gathered.weights),
        loss_weights,
        _mid_returns(config, gathered.trajectories),
        imitated,
        lambda stream: derive_seed(config.seed, stream, policy.name, iteration),
    )
    batch = packed.batch._replace(terms=_terms(config, objective, facts, iteration))
    steps = steps_at(config, iteration, policy.name)
    metrics = update(policy, batch, objective, steps) | {"learning_rate": steps.learning_rate}
    if policy.critic is not None:
        metrics |= _fit_critic(policy, policy.critic, gathered)
    if policy.updates % config.objective.magnet_every == 0:
        policy.refresh_magnet()
    return metrics


def _terms(config: RunConfig, objective: Objective, facts: UpdateFacts, iteration: int) -> dict[str, Any]:
    """Return the rows that each term of the loss adds to an update, by its name."""
    name, settings = objective.surrogate.name, objective.surrogate.table
    terms = [(name, LOSSES[name], settings)]
    terms += [(name, AUXILIARY[name], settings) for name, settings in auxiliary_at(config, iteration).items()]
    rows = {name: term.rows(facts, settings) for name, term, settings in terms if term.rows is not None}
    return {name: term_rows for name, term_rows in rows.items() if term_rows is not None}


def _weighted(advantages: Sequence[Sequence[float]], weight: float) -> Sequence[Sequence[float]]:
    """Return the advantages times the weight of the policy gradient."""
    return advantages if weight == 1.0 else [[weight * advantage for advantage in row] for row in advantages]


def _with_predictions(
    config: RunConfig, gathered: TrajectoryBuffer, advantages: Sequence[Sequence[float]], iteration: int
) -> Sequence[Sequence[float]]:
    """Return the advantages with the credit of stated predictions, which no critic sees."""
    term = config.shaping.prediction
    if not term.on:
        return advantages
    weight = term_weight_at(config, term, iteration)
    factors = [weight * term.factor(trajectory.game, trajectory.role) for trajectory in gathered.trajectories]
    return with_stated(gathered.trajectories, gathered.evidence, advantages, factors)


def _of_all_replies(evidence: Sequence[Evidence], weight: float) -> Sequence[Evidence]:
    """Return evidence with the credit of all replies multiplied by the weight of the policy gradient."""
    if weight == 1.0:
        return evidence
    return [
        cells
        if cells.reply_credits is None
        else cells.with_cells(reply_credits=tuple(map(tuple, _weighted(cells.reply_credits, weight))))
        for cells in evidence
    ]


def _fit_critic(policy: Policy, critic: Critic, gathered: TrajectoryBuffer) -> Metrics:
    """Fit a critic to the targets of its values, if it estimated any; return its metrics."""
    values = {i: evidence.values for i, evidence in enumerate(gathered.evidence) if evidence.values is not None}
    targets = critic_targets(list(values.values()), [gathered.advantages[i] for i in values])
    evidence = [gathered.evidence[i] for i in values]
    metrics = critic.fit(policy.lm, [gathered.trajectories[i] for i in values], targets, evidence)
    return {f"critic/{key}": value for key, value in metrics.items()}


def _mid_returns(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the middle of each game's range of returns, in the units of the trajectories' returns."""
    specs = {name: make_game(name).spec for name in {trajectory.game for trajectory in trajectories}}
    return {
        name: (spec.min_return + spec.max_return) / 2 / (return_scale(spec) if config.credit.scale_returns else 1.0)
        for name, spec in specs.items()
    }
