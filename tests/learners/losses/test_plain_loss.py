"""A batch's loss and all that is reported of it, against the same in numpy: turn by turn, every term at once."""

import math
import random

import numpy as np
import pytest
import torch
from support.learning.plain_loss import Policies, scores, turn_terms
from support.learning.slopes import move
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import brief, copied

from learners.batching import to_batch
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import EntropyBand, Objective, Surrogate
from learners.metric_sums import MetricSums

LOSS_WEIGHT, ENTROPY_MEAN = 2.0, 0.4
CASES = {
    "ppo, k1": (Surrogate("ppo", {"clip_low": 0.05, "clip_high": 0.1, "dual_clip": 1.2}), "k1"),
    "gspo, k3": (Surrogate("gspo", {"clip_low": 0.02, "clip_high": 0.03}), "k3"),
    "reinforce, k2": (Surrogate("reinforce", {"clip_low": 0.1, "clip_high": 0.1}), "k2"),
}


def objective_of(surrogate, estimator):
    return Objective(
        surrogate,
        {"kuhn_poker": 0.1},
        kl_old=0.3,
        magnet=0.2,
        magnet_uniform=0.1,
        truncate=1.25,
        kl_reference=0.4,
        kl_estimator=estimator,
        band=EntropyBand(0.5, 0.9, 1.1),
    )


def resampled(trajectories):
    """Return the matches of an engine whose log-probs are off by some 0.3 nats, otherwise at every draw."""
    rng = random.Random(0)

    def off(turn):
        logprobs = tuple(p + rng.gauss(0.0, 0.3) for p in turn.trace.logprobs)
        return turn._replace(trace=turn.trace._replace(logprobs=logprobs))

    return [t._replace(turns=tuple(map(off, t.turns))) for t in trajectories]


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def played(request):
    """Return the models by their part, matches, and the scores of each turn by each of the models."""
    lm = brief(kuhn_pocket())
    models = Policies(copied(lm), lm, kuhn_pocket(1), kuhn_pocket(2))
    move(models.lm, 0.03)
    trajectories = resampled(self_play(lm, 6, request.param))
    seen = {}
    for turn in (turn for t in trajectories for turn in t.turns):
        key = turn.trace.prompt_ids, turn.trace.reply_ids
        if key not in seen:
            seen[key] = Policies(*(scores(model, turn) for model in models))
    return models, trajectories, seen


def advantages_of(trajectories):
    return [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]


@pytest.mark.parametrize("case", CASES)
def test_a_batchs_loss_and_metrics_are_the_plain_ones(played, case):
    models, trajectories, seen = played
    objective, advantages = objective_of(*CASES[case]), advantages_of(trajectories)
    batch = to_batch("main", trajectories, advantages, {"kuhn_poker": LOSS_WEIGHT})
    student, sums = copied(models.old), MetricSums()
    losses = BatchLoss(
        student,
        models.magnet,
        batch,
        objective,
        max_tokens=200,
        reference=models.reference,
        entropy_means={"kuhn_poker": ENTROPY_MEAN},
    )
    losses.record_old(MetricSums())
    move(student, 0.03)
    with torch.no_grad():
        loss = sum(float(part) for part in losses.losses(0, sums))
    rows = [
        turn_terms(turn, seen[turn.trace.prompt_ids, turn.trace.reply_ids], advantage, objective, ENTROPY_MEAN)
        for t, advantages_K in zip(trajectories, advantages, strict=True)
        for turn, advantage in zip(t.turns, advantages_K, strict=True)
    ]
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    assert loss == pytest.approx(LOSS_WEIGHT * means.pop("loss"), rel=1e-4)
    assert {name: sums.mean(name) for name in means} == pytest.approx(means, rel=1e-3, abs=1e-5)
    assert all(abs(value) > 1e-3 for value in means.values()), "no term of it is idle"
