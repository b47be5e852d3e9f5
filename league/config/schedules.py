"""The objective and optimiser settings at one iteration: weights and rates that change during a run.

Two schedules of the objective's weights, by name. ``geometric`` goes from each weight to its end. ``mmd`` follows
magnetic mirror descent (Sokota et al., arXiv 2206.05825): at iteration t the regularisation alpha falls as 1 / sqrt(t)
and the weight of the old policy, 1 / eta, grows as sqrt(t), so that eta / alpha stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

from games.common.section import Section
from league.config import RunConfig
from learners.losses.distillation import Distillation
from learners.losses.objective import EntropyBand, Objective, Surrogate
from learners.losses.term import WeightedTerm
from learners.normalisation import Mismatch, Normalisation
from learners.update.learner import StepSettings


def geometric(start: float, end: float | None, share: float) -> float:
    """Return the value ``share`` of the way from start to end on a geometric path; None: constant."""
    if end is None or start == end:
        return start
    if start == 0.0 or end == 0.0:  # no geometric path leads to or from 0
        return start + (end - start) * share
    return start * (end / start) ** share  # type: ignore[no-any-return]


class Time(NamedTuple):
    """When an update is taken."""

    iteration: int  # counted from 1
    share: float  # the share of the run that is over


def falling(weight: float, _end: float | None, time: Time) -> float:
    """Return a weight of ``mmd`` that falls, such as alpha."""
    return weight / sqrt(time.iteration)


def rising(weight: float, _end: float | None, time: Time) -> float:
    """Return a weight of ``mmd`` that grows, such as 1 / eta."""
    return weight * sqrt(time.iteration)


def _geometric(start: float, end: float | None, time: Time) -> float:
    return geometric(start, end, time.share)


Course = Callable[[float, float | None, Time], float]
SCHEDULES: dict[str, tuple[Course, Course]] = {"geometric": (_geometric, _geometric), "mmd": (falling, rising)}


def objective_at(config: RunConfig, iteration: int, policy: str) -> Objective:
    """Return the objective of a policy's update in an iteration (counted from 1)."""
    time, settings = Time(iteration, _share(config, iteration)), config.objective
    pull, step = SCHEDULES[settings.schedule]
    entropy = {}
    for name, game in config.games.items():
        start = settings.entropy if game.entropy is None else game.entropy
        default_end = settings.entropy_end if game.entropy is None else None
        entropy[name] = pull(start, game.entropy_end if game.entropy_end is not None else default_end, time)
    name = config.policy(policy).objective or settings.name
    magnet = pull(settings.magnet, settings.magnet_end, time) if settings.magnet_rule == "loss" else 0.0
    kl_old = step(settings.kl_old, settings.kl_old_end, time)
    return Objective(
        Surrogate(name, settings.settings_of(name)),
        entropy,
        kl_old=kl_old,
        magnet=magnet,
        magnet_uniform=settings.magnet_uniform,
        normalisation=Normalisation(settings.normalisation, settings.length),
        truncate=settings.truncate,
        kl_reference=settings.kl_reference,
        kl_estimator=settings.kl_estimator,
        mismatch=Mismatch(settings.mismatch, settings.mismatch_low, settings.mismatch_high),
        band=EntropyBand(
            settings.epo if settings.epo_end is None else pull(settings.epo, settings.epo_end, time),
            roles={role: pull(settings.epo, end, time) for role, end in settings.epo_ends.items()},
        ),
    )


def auxiliary_at(config: RunConfig, iteration: int) -> dict[str, Section]:
    """Return the settings of each auxiliary term of the loss, with its weights in an iteration."""
    settings, time = config.objective, Time(iteration, _share(config, iteration))
    pull, _ = SCHEDULES[settings.schedule]

    def now(term: WeightedTerm) -> WeightedTerm:
        return term.model_copy(update={"weight": term_weight_at(config, term, iteration)})

    predicted = {name: now(term) for name, term in config.prediction.terms.items()}
    distill = pull(settings.distill, settings.distill_end, time)
    return {
        "imitation": config.imitation.model_copy(update={"weight": imitation_at(config, iteration)}),
        "listening": now(config.beliefs.listening),
        "prediction": config.prediction.model_copy(update=predicted),
        "contrast": now(config.contrast),
        "distill": Distillation(weight=distill, divergence=config.teacher.divergence),
    }


def reward_weight_at(config: RunConfig, iteration: int) -> float:
    """Return a reply's price per nat away from the magnet in an iteration; 0 where the magnet is in the loss."""
    settings = config.objective
    if settings.magnet_rule == "loss":
        return 0.0
    pull, _ = SCHEDULES[settings.schedule]
    return pull(settings.magnet, settings.magnet_end, Time(iteration, _share(config, iteration)))


def term_weight_at(config: RunConfig, term: WeightedTerm, iteration: int) -> float:
    """Return the weight of an auxiliary term in an iteration (counted from 1)."""
    return geometric(term.weight, term.weight_end, _share(config, iteration))


def imitation_at(config: RunConfig, iteration: int) -> float:
    """Return the share of imitation in the loss of an iteration's updates (counted from 1)."""
    settings = config.imitation
    if settings.until is None:
        return settings.weight
    left = (settings.until - iteration) / max(settings.until - settings.since, 1)
    return settings.weight * min(max(left, 0.0), 1.0)


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
        drops=optimizer.gap_action == "drop",
    )


def _share(config: RunConfig, iteration: int) -> float:
    return (iteration - 1) / max(config.iterations - 1, 1)
