"""The learner: turns a TrainBatch into optimiser steps on one policy, and returns metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from arena.flops import COUNTED
from learners.batching import TrainBatch
from learners.losses import term_named
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import EntropyBand, Objective
from learners.metric_sums import MetricSums
from learners.parallel.process_group import SINGLE_PROCESS, ProcessGroup
from learners.update.passes import Passes
from learners.update.policy import Policy
from learners.update.room import memory_of, tokens_with_room


class LearningError(RuntimeError):
    """An update that must not be applied: NaN, or a sampler that disagrees with the learner."""

    def __init__(self, message: str, batch: TrainBatch) -> None:
        super().__init__(message)
        self.batch = batch


class StepSettings(NamedTuple):
    """The optimiser steps of an update."""

    learning_rate: float
    inner_steps: int
    max_grad_norm: float
    max_gap: float  # nats
    max_tokens: int  # padded tokens in one forward and backward pass
    minibatch: int = 1  # fewest prompts of a game in one inner step
    drops: bool = False  # leave out a batch whose gap exceeds ``max_gap``, and continue


def update(
    policy: Policy,
    batch: TrainBatch,
    objective: Objective,
    steps: StepSettings,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> dict[str, float]:
    """Take ``steps.inner_steps`` optimiser steps on one batch; return the update's metrics.

    A first pass computes pi_old and its gap to the sampler's log-probs. Where steps take the whole batch, that is the
    first step's own pass; where the batch is split into minibatches, it is a pass without gradients before the first.
    Metrics are means over turns, in nats: ``entropy`` (also by game, ``entropy/GAME``), ``gap``, the
    divergences; ``importance`` and ``truncated`` are the mean importance weight and the share at its bound; ``clipped``
    is the share outside the surrogate's clips, 0 where it has none; ``ratio_outside`` (also by role) is the share of
    tokens whose p learner / p sampler is outside of 0.9 to 1.1, and ``ratio_max`` the greatest. ``dropped`` stands with
    the gap and these where ``steps.drops`` left the batch out. Each term of the loss adds its own (``LossTerm``).
    On a GPU: ``pass_tokens``, the size of a pass: ``steps.max_tokens``, or as many tokens as there is room for.
    All processes of ``process_group`` call it with the same arguments; each computes the losses of its share of the
    rows, and all take the same steps. Raises LearningError, and leaves the weights as they were before that step, if
    the mean gap exceeds ``steps.max_gap`` (without ``steps.drops``) or a loss or gradient is not finite.
    """
    steps = _with_room(policy, batch, objective, steps, process_group)
    policy.frozen_results.begin_update()
    losses = _losses(policy, batch, objective, steps, process_group)
    passes, norms = Passes(policy, process_group, losses), list[float]()
    before = passes.backward(0, first=True) if losses.is_whole else passes.record_old()
    if steps.drops and before.mean("gap") > steps.max_gap:
        policy.clear_gradients()
        return {"gap": before.mean("gap"), "dropped": 1.0} | _mismatch_metrics(before)
    _check_gap(policy, batch, before, steps)
    _check_finite(policy, batch, before, 0.0, 0)  # NaN anywhere in the batch: take no step on its other minibatches
    sums = before
    for step in range(steps.inner_steps):
        if step or not losses.is_whole:
            sums = passes.backward(step, first=False)
        norm = policy.clip_gradients(steps.max_grad_norm)
        _check_finite(policy, batch, sums, norm, step)
        taken = policy.step(steps.learning_rate)
        norms += [norm] if policy.waist is None else [] if taken is None else [taken]
    policy.finish_update()
    policy.entropy_means = _update_means(policy.entropy_means, before, objective.band)
    names = dict.fromkeys([objective.surrogate.name, *batch.terms])
    return _metrics(names, before, sums, norms) | ({"pass_tokens": steps.max_tokens} if policy.pass_tokens else {})


def _with_room(
    policy: Policy, batch: TrainBatch, objective: Objective, steps: StepSettings, process_group: ProcessGroup
) -> StepSettings:
    """Return the steps with passes that fit the GPU's memory, as measured before the first update."""
    memory = memory_of(policy)
    if memory is None:
        return steps
    if not policy.pass_tokens:

        def run(tokens: int) -> None:
            losses = _losses(policy, batch, objective, steps._replace(max_tokens=tokens), process_group)
            if (loss := next(losses.losses(0, MetricSums()), None)) is not None:
                loss.backward()

        counted = COUNTED.total
        policy.pass_tokens = tokens_with_room(policy, run, steps.max_tokens, memory)
        policy.frozen_results.clear()
        COUNTED.total = counted
    return steps._replace(max_tokens=min(steps.max_tokens, policy.pass_tokens))


def _losses(
    policy: Policy, batch: TrainBatch, objective: Objective, steps: StepSettings, process_group: ProcessGroup
) -> BatchLoss:
    """Return the losses of this process's share of the rows."""
    return BatchLoss(
        policy.lm,
        policy.magnet,
        batch,
        objective,
        max_tokens=steps.max_tokens,
        reference=policy.reference,
        waist=policy.waist,
        results=None if policy.sharded else policy.frozen_results,  # shards are gathered in step with other processes
        entropy_means=policy.entropy_means,
        minibatches=steps.inner_steps,
        minibatch_rows=steps.minibatch,
        process_group=process_group,
    )


def _metrics(terms: Iterable[str], before: MetricSums, last: MetricSums, norms: Sequence[float]) -> dict[str, float]:
    """Return means over the batch before the update, the divergences of the last step, and the mean gradient norm."""
    names = ("entropy", "gap", "magnet_kl", "reference_kl", "outside_band", "importance", "truncated")
    metrics = {name: before.mean(name) for name in names if name in before.totals}
    metrics |= {f"entropy/{game}": before.mean(f"entropy/{game}", f"turns/{game}") for game in _games(before)}
    for term in map(term_named, terms):
        metrics |= {} if term.metrics is None else term.metrics(before)
    metrics |= _mismatch_metrics(before)
    metrics |= {"kl_old": last.mean("kl_old"), "clipped": last.mean("clipped")}
    metrics |= {"loss": before.totals.get("loss", 0.0)}
    return metrics | ({"grad_norm": sum(norms) / len(norms)} if norms else {})


def _mismatch_metrics(before: MetricSums) -> dict[str, float]:
    """Return the share of tokens whose p learner / p sampler is outside of ``NEAR``, also by role, and the greatest.

    Absent where none is.
    """
    if not before.totals.get("ratio_outside"):
        return {}
    names = [name for name in before.totals if name.startswith("ratio_outside")]
    shares = {name: before.mean(name, name.replace("outside", "tokens", 1)) for name in names}
    return {**shares, "ratio_max": before.maxima["ratio_max"]}


def _update_means(means: Mapping[str, float], before: MetricSums, band: EntropyBand) -> dict[str, float]:
    """Return the running means of a token's entropy after this batch, if a band needs them.

    The first batch of a game sets its mean.
    """
    if not band.on:
        return dict(means)
    now = {game: before.mean(f"entropy/{game}", f"tokens/{game}") for game in _games(before)}
    return {**means, **{g: band.decay * means.get(g, mean) + (1 - band.decay) * mean for g, mean in now.items()}}


def _games(sums: MetricSums) -> list[str]:
    return [name.removeprefix("turns/") for name in sums.totals if name.startswith("turns/")]


def _check_finite(policy: Policy, batch: TrainBatch, sums: MetricSums, norm: float, step: int) -> None:
    loss = sums.totals.get("loss", 0.0)
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise LearningError(
            f"Policy {policy.name!r}, update {policy.updates + 1}, step {step + 1}: the loss is {loss} and the "
            f"gradient norm {norm}. The step was not taken. Lower optimizer.learning_rate, or inspect "
            "the saved batch.",
            batch,
        )


def _check_gap(policy: Policy, batch: TrainBatch, sums: MetricSums, steps: StepSettings) -> None:
    gap = sums.mean("gap")
    if gap > steps.max_gap:
        raise LearningError(
            f"Policy {policy.name!r}: the log-probs that the engine recorded for {', '.join(batch.snapshots)} "
            f"differ from the learner's by {gap:.4f} nats a turn on average; optimizer.max_gap allows {steps.max_gap}. "
            "The engine played other weights, another mask or another temperature than the learner has.",
            batch,
        )
