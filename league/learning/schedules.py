"""The objective and optimiser settings at one iteration: weights and rates that change during a run."""

from __future__ import annotations

from league.config import RunConfig
from learners.losses.objective import EntropyBand, Objective
from learners.losses.surrogates import Surrogate
from learners.normalisation import Normalisation
from learners.update.learner import StepSettings


def geometric(start: float, end: float | None, share: float) -> float:
    """Return the value ``share`` of the way from start to end on a geometric path; None: constant."""
    if end is None or start == end:
        return start
    if start == 0.0 or end == 0.0:  # no geometric path leads to or from 0
        return start + (end - start) * share
    return start * (end / start) ** share  # type: ignore[no-any-return]


def objective_at(config: RunConfig, iteration: int, policy: str) -> Objective:
    """Return the objective of a policy's update in an iteration (counted from 1)."""
    share, settings = _share(config, iteration), config.objective
    entropy = {}
    for name, game in config.games.items():
        start = settings.entropy if game.entropy is None else game.entropy
        default_end = settings.entropy_end if game.entropy is None else None
        entropy[name] = geometric(start, game.entropy_end if game.entropy_end is not None else default_end, share)
    name = config.policy(policy).objective or settings.name
    surrogate = Surrogate(name, settings.clip_low, settings.clip_high, settings.dual_clip, settings.dpo_beta)
    magnet = geometric(settings.magnet, settings.magnet_end, share)
    kl_old = geometric(settings.kl_old, settings.kl_old_end, share)
    return Objective(
        surrogate,
        entropy,
        kl_old=kl_old,
        magnet=magnet,
        magnet_uniform=settings.magnet_uniform,
        normalisation=Normalisation(settings.normalisation, settings.length),
        truncate=settings.truncate,
        kl_reference=settings.kl_reference,
        kl_estimator=settings.kl_estimator,
        band=EntropyBand(settings.epo, settings.epo_low, settings.epo_high, settings.epo_decay),
    )


def steps_at(config: RunConfig, iteration: int, policy: str) -> StepSettings:
    """Return the optimiser steps of a policy's update in an iteration (counted from 1)."""
    optimizer, policy_config = config.optimizer, config.policy(policy)
    start, end = optimizer.learning_rate, optimizer.learning_rate_end
    if policy_config.learning_rate is not None:
        start, end = policy_config.learning_rate, policy_config.learning_rate_end
    return StepSettings(
        learning_rate=geometric(start, end, _share(config, iteration)),
        inner_steps=policy_config.inner_steps or optimizer.inner_steps,
        max_grad_norm=optimizer.max_grad_norm,
        max_gap=optimizer.max_gap,
        max_tokens=optimizer.micro_batch_tokens,
        minibatch=optimizer.minibatch_prompts,
    )


def _share(config: RunConfig, iteration: int) -> float:
    return (iteration - 1) / max(config.iterations - 1, 1)
