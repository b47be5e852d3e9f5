"""The learner: turns a TrainBatch into optimiser steps on one policy, and says what happened."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from learners.batching import TrainBatch
from learners.objective import BatchLoss, Objective, Sums
from learners.policy import Policy


class LearningError(RuntimeError):
    """An update that must not be applied: NaN, or a sampler that disagrees with the learner."""

    def __init__(self, message: str, batch: TrainBatch) -> None:
        super().__init__(message)
        self.batch = batch


class Steps(NamedTuple):
    """How an update steps."""

    learning_rate: float
    inner_steps: int
    max_grad_norm: float
    budget: int  # padded tokens in one forward and backward pass
    max_gap: float  # nats


def update(policy: Policy, batch: TrainBatch, objective: Objective, steps: Steps) -> dict[str, float]:
    """Take ``steps.inner_steps`` optimiser steps on one batch; return the update's metrics.

    The first pass gives pi_old and the gap between it and what the sampler recorded. Raises
    LearningError, and leaves the weights as they were before that step, if the mean gap exceeds
    ``steps.max_gap`` or a loss or gradient is not finite.
    """
    for group in policy.optimizer.param_groups:
        group["lr"] = steps.learning_rate
    losses = BatchLoss(policy.lm, policy.magnet, batch, objective, steps.budget)
    first, norm = _accumulate(policy, losses, steps)
    _check_gap(policy, batch, first, steps)
    latest, latest_norm = first, norm
    for step in range(steps.inner_steps):
        if step:
            latest, latest_norm = _accumulate(policy, losses, steps)
        _check_finite(policy, batch, latest, latest_norm, step)
        policy.optimizer.step()
    policy.updates += 1
    metrics = {name: first.mean(name) for name in ("entropy", "gap", "magnet_kl") if name in first.totals}
    metrics |= {"loss": first.totals.get("loss", 0.0), "grad_norm": norm}
    return metrics | {"kl_old": latest.mean("kl_old"), "clipped": latest.mean("clipped")}


def _accumulate(policy: Policy, losses: BatchLoss, steps: Steps) -> tuple[Sums, float]:
    """Compute the batch's gradient into the parameters, clipped; return the sums and its norm before."""
    policy.optimizer.zero_grad(set_to_none=True)
    sums = Sums()
    for loss in losses.chunks(sums):
        loss.backward()  # type: ignore[no-untyped-call]
        sums.add("loss", loss)
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters.values(), steps.max_grad_norm)
    return sums, float(norm)


def _check_finite(policy: Policy, batch: TrainBatch, sums: Sums, norm: float, step: int) -> None:
    loss = sums.totals.get("loss", 0.0)
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise LearningError(
            f"Policy {policy.name!r}, update {policy.updates + 1}, step {step + 1}: the loss is {loss} and the gradient "
            f"norm {norm}. The step was not taken. Lower learner.learning_rate, or look into the saved batch.",
            batch,
        )


def _check_gap(policy: Policy, batch: TrainBatch, sums: Sums, steps: Steps) -> None:
    gap = sums.mean("gap")
    if gap > steps.max_gap:
        raise LearningError(
            f"Policy {policy.name!r}: the log-probs that the engine recorded for {', '.join(batch.snapshots)} differ from "
            f"the learner's by {gap:.4f} nats a turn on average; learner.max_gap allows {steps.max_gap}. The engine played "
            "other weights, another mask or another temperature than the learner has.",
            batch,
        )
