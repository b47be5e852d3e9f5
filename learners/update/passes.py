"""The forward and backward passes that one process makes in an update."""

from __future__ import annotations

import torch

from arena.lm.language_model import LanguageModel
from learners.losses.batch_loss import BatchLoss
from learners.metric_sums import MetricSums
from learners.parallel.process_group import ProcessGroup
from learners.update.policy import Policy


class Passes:
    """The passes over one batch. Each method returns the metrics of all processes together."""

    def __init__(self, policy: Policy, process_group: ProcessGroup, losses: BatchLoss) -> None:
        self._policy, self._process_group, self._losses = policy, process_group, losses

    @torch.no_grad()
    def record_old(self) -> MetricSums:
        """Store pi_old and the frozen models' log-probs; return the metrics of the batch."""
        sums, missing = MetricSums(), self._missing_passes(self._losses.chunk_count())
        self._losses.record_old(sums)
        for _ in range(missing):
            for lm in (*self._losses.frozen_models, self._policy.lm):
                _idle_pass(lm)
        return self._process_group.sum_metrics(sums)

    def backward(self, step: int, *, first: bool) -> MetricSums:
        """Compute an inner step's gradient; return the metrics of its rows.

        ``first``: ``record_old`` was not called, so these passes also store pi_old and the frozen models' log-probs.
        """
        self._policy.clear_gradients()
        self._score()
        sums, missing = MetricSums(), self._missing_passes(self._losses.chunk_count(step))
        for loss in self._losses.losses(step, sums):
            self._policy.check_reached(loss)
            loss.backward()
            sums.add("loss", loss)
        for _ in range(missing):
            with torch.no_grad():
                for lm in self._losses.frozen_models if first else ():
                    _idle_pass(lm)
            (0.0 * _idle_pass(self._policy.lm)).backward()
        if not self._policy.sharded or self._policy.lm.adapters is not None:  # FSDP has summed shards
            self._process_group.sum_gradients(list(self._policy.parameters.values()))
        return self._process_group.sum_metrics(sums)

    @torch.no_grad()
    def _score(self) -> None:
        """Compute the scores that the step needs first, if it needs any, and sum them over processes."""
        scores = self._losses.score()
        if scores is not None:
            self._losses.weigh([self._process_group.sum_numbers(numbers) for numbers in scores])

    def _missing_passes(self, chunks: int) -> int:
        """Return how many fewer passes this process makes than the busiest one; idle passes make up for them.

        FSDP gathers shards in every pass, so all processes must make the same number of passes. Call it before the
        first pass, because all processes must call collective operations in the same order.
        """
        return self._process_group.max(chunks) - chunks if self._policy.sharded else 0


def _idle_pass(lm: LanguageModel) -> torch.Tensor:
    """Run a pass over one token; return a scalar that depends on all weights."""
    token = torch.zeros(1, 1, dtype=torch.long, device=lm.device)
    scalar: torch.Tensor = lm.forward(input_ids=token, use_cache=False).logits.float().sum()
    return scalar
