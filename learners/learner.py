"""The learner: turns a TrainBatch into optimiser steps on one policy, and says what happened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from learners.batch_loss import BatchLoss
from learners.batching import TrainBatch
from learners.objective import EntropyBand, Objective, Sums
from learners.passes import Passes
from learners.policy import Policy
from learners.sharding import whole
from learners.team import ALONE, Team


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
    max_gap: float  # nats
    budget: int  # padded tokens in one forward and backward pass
    minibatch: int = 1  # fewest prompts of a game in one inner step


def update(
    policy: Policy, batch: TrainBatch, objective: Objective, steps: Steps, team: Team = ALONE
) -> dict[str, float]:
    """Take ``steps.inner_steps`` optimiser steps on one batch; return the update's metrics.

    A first pass gives pi_old and the gap between it and what the sampler recorded: one without gradients, or
    that of the step itself where there is just one.
    Metrics are means over turns, in nats: ``entropy`` (also by game, ``entropy/GAME``), ``gap``, the
    divergences; ``importance`` and ``truncated`` are the mean importance weight and the share at its bound. Of ``dpo``:
    how many ``pairs``, and over these the share whose better reply is ``preferred``, and its mean ``margin`` in nats.
    All processes of ``team`` call it with the same arguments; each computes the losses of its share of the rows,
    and all take the same steps. Raises LearningError, and leaves the weights as they were before that step, if
    the mean gap exceeds ``steps.max_gap`` or a loss or gradient is not finite.
    """
    losses = BatchLoss(
        policy.lm,
        policy.magnet,
        batch,
        objective,
        budget=steps.budget,
        reference=policy.reference,
        entropy_means=policy.entropy_means,
        parts=steps.inner_steps,
        minibatch=steps.minibatch,
        team=team,
    )
    passes, single, norms = Passes(policy, team, losses), steps.inner_steps == 1, []
    before = passes.backward(0, first=True) if single else passes.fix_old()
    _check_gap(policy, batch, before, steps)
    _check_finite(policy, batch, before, 0.0, 0)  # a batch that holds NaN must not take its sound minibatches' steps
    sums = before
    for step in range(steps.inner_steps):
        if not single:
            sums = passes.backward(step, first=False)
        norms.append(_clipped(policy, steps.max_grad_norm))
        _check_finite(policy, batch, sums, norms[-1], step)
        policy.step(steps.learning_rate)
    policy.updates += 1
    policy.entropy_means = _moved_means(policy.entropy_means, before, objective.band)
    return _metrics(before, sums, norms)


def _clipped(policy: Policy, most: float) -> float:
    """Clip the gradient to a norm; return the norm that it had."""
    return float(whole(torch.nn.utils.clip_grad_norm_(policy.parameters.values(), most)))


def _metrics(before: Sums, last: Sums, norms: Sequence[float]) -> dict[str, float]:
    """Return means over the batch before the update, how far it had moved by its last step, and the gradient's norm."""
    names = ("entropy", "gap", "magnet_kl", "reference_kl", "outside_band", "importance", "truncated")
    metrics = {name: before.mean(name) for name in names if name in before.totals}
    metrics |= {f"entropy/{game}": before.mean(f"entropy/{game}", f"turns/{game}") for game in _games(before)}
    if "pairs" in before.totals:
        metrics["pairs"] = before.totals["pairs"]
        metrics |= {name: before.mean(name, "pairs") for name in ("preferred", "margin")}
    metrics |= {"kl_old": last.mean("kl_old"), "clipped": last.mean("clipped")}
    return metrics | {"loss": before.totals.get("loss", 0.0), "grad_norm": sum(norms) / len(norms)}


def _moved_means(means: Mapping[str, float], before: Sums, band: EntropyBand) -> dict[str, float]:
    """Return the running means of a token's entropy, where a band needs them, with this batch's folded in.

    A game's first is its own.
    """
    if not band.weight:
        return dict(means)
    now = {game: before.mean(f"entropy/{game}", f"tokens/{game}") for game in _games(before)}
    return {**means, **{g: band.decay * means.get(g, mean) + (1 - band.decay) * mean for g, mean in now.items()}}


def _games(sums: Sums) -> list[str]:
    return [name.removeprefix("turns/") for name in sums.totals if name.startswith("turns/")]


def _check_finite(policy: Policy, batch: TrainBatch, sums: Sums, norm: float, step: int) -> None:
    loss = sums.totals.get("loss", 0.0)
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise LearningError(
            f"Policy {policy.name!r}, update {policy.updates + 1}, step {step + 1}: the loss is {loss} and the "
            f"gradient norm {norm}. The step was not taken. Lower learner.learning_rate, or look into the saved batch.",
            batch,
        )


def _check_gap(policy: Policy, batch: TrainBatch, sums: Sums, steps: Steps) -> None:
    gap = sums.mean("gap")
    if gap > steps.max_gap:
        raise LearningError(
            f"Policy {policy.name!r}: the log-probs that the engine recorded for {', '.join(batch.snapshots)} "
            f"differ from the learner's by {gap:.4f} nats a turn on average; learner.max_gap allows {steps.max_gap}. "
            "The engine played other weights, another mask or another temperature than the learner has.",
            batch,
        )
