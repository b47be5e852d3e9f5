"""Fitting a model to targets by minimising the KL to them, weighted by the probability of each situation.

D = Σ_i w_i KL(target_i ‖ π(· | situation_i)), whose gradient is the cross-entropy's. AdamW, a cosine schedule;
where there are more situations than a step takes, each step draws some by their weights.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from arena.lm.language_model import LanguageModel
from league.population.distillation.targets import Target
from learners.batching import ChoiceRow, FreeRow
from learners.losses.chunk import Models
from learners.losses.given_replies import GivenLoss, given_chunks
from learners.metric_sums import MetricSums
from learners.update.policy import Policy

OnStep = Callable[[int], None]
WARMUP = 0.05  # of the steps
MOST_PROMPTS = 256  # situations in a step


class Teaching(NamedTuple):
    """How a model is taught."""

    steps: int
    learning_rate: float  # the peak
    max_grad_norm: float


class Lesson:
    """The targets of one model as rows of tokens."""

    def __init__(self, lm: LanguageModel, targets: Sequence[Target], max_tokens: int) -> None:
        self._lm, self._max_tokens = lm, max_tokens
        self._targets = list(targets)
        total = math.fsum(target.weight for target in targets)
        self._weights = [target.weight / total for target in targets]
        self._rows = [_row(lm, target) for target in targets]

    def kl(self) -> float:
        """Return the weighted KL of the targets to the model, nats a situation."""
        sums = MetricSums()
        with torch.no_grad():
            for chunk in self._chunks(range(len(self._rows)), self._weights):
                sums.add("cross_entropy", chunk.loss(MetricSums()).detach())
        entropy = math.fsum(w * target.entropy for w, target in zip(self._weights, self._targets, strict=True))
        return sums.totals["cross_entropy"] - entropy

    def teach(self, policy: Policy, settings: Teaching, seed: int, on_step: OnStep | None = None) -> None:
        """Take optimiser steps of the policy that has this model; the same seed draws the same situations."""
        rng, everything = random.Random(seed), range(len(self._rows))
        warmup = max(1, round(WARMUP * settings.steps))
        for step in range(settings.steps):
            rate = min(1.0, (step + 1) / warmup) * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps))
            chosen, weights = list(everything), self._weights
            if len(self._rows) > MOST_PROMPTS:
                drawn = Counter(rng.choices(everything, self._weights, k=MOST_PROMPTS))
                chosen, weights = list(drawn), [times / MOST_PROMPTS for times in drawn.values()]
            policy.optimizer.zero_grad(set_to_none=True)
            for chunk in self._chunks(chosen, weights):
                chunk.loss(MetricSums()).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters.values(), settings.max_grad_norm)
            policy.step(settings.learning_rate * rate)
            if on_step is not None:
                on_step(step)

    def _chunks(self, chosen: Sequence[int], weights: Sequence[float]) -> Iterator[GivenLoss]:
        """Yield the losses of some rows with these weights."""
        by_temperature: dict[float, list[ChoiceRow | FreeRow]] = {}
        for index, weight in zip(chosen, weights, strict=True):
            row = self._rows[index]
            weighted = (
                row._replace(weight=weight)
                if isinstance(row, FreeRow)
                else row._replace(weights=[weight * share for share in self._targets[index].probabilities])
            )
            by_temperature.setdefault(row.temperature, []).append(weighted)
        for temperature, rows in by_temperature.items():
            yield from given_chunks(Models(self._lm, None, None), rows, temperature, self._max_tokens)


def _row(lm: LanguageModel, target: Target) -> ChoiceRow | FreeRow:
    """Return a target in tokens, without a weight."""
    prompt = lm.encode_prompt(target.chat)
    if not target.legal:
        reply = lm.encode_reply(target.reply)
        return FreeRow(target.game, target.game, prompt, reply, target.temperature, 1.0, 0.0, 0.0, 0.0)
    counts, weights, gains, losses = ([0.0] * len(target.legal) for _ in range(4))
    return ChoiceRow(target.game, target.game, prompt, target.legal, target.temperature, counts, weights, gains, losses)
