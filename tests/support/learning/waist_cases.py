"""Every loss of free replies on matches of Kuhn poker, and its gradient here and through a trainer's waist."""

from functools import cache

import torch

from arena.records import MatchRequest
from games.common.seeds import derive_seed
from learners.batching import pack
from learners.losses import LOSSES
from learners.losses.batch_loss import BatchLoss
from learners.losses.distillation import TaughtRows, TaughtTurns
from learners.losses.dpo import paired_replies
from learners.losses.imitation import draw_imitation
from learners.losses.objective import Objective, Surrogate
from learners.losses.term import ImitatedReply, UpdateFacts
from learners.metric_sums import MetricSums
from learners.normalisation import Mismatch
from learners.trajectories import to_trajectories
from learners.waist import Waist
from support.learning.slopes import move
from support.matches.kuhn import FREE, engine_with, kuhn_pocket, played, roles_for
from support.models.pocket import brief

RETRIED = FREE | {"on_illegal": "retry"}
WEIGHT = {"kuhn_poker": 2.0}
KL = {"kl_old": 0.3, "magnet": 0.2, "kl_reference": 0.1}
OBJECTIVES = {
    "reinforce": Objective(Surrogate("reinforce"), {}, **KL),
    "ppo": Objective(Surrogate("ppo", {"dual_clip": 3.0}), {}, **KL),
    "gspo": Objective(Surrogate("gspo"), {}, kl_estimator="k3", **KL),
    "ppo, truncated": Objective(Surrogate("ppo"), {}, truncate=2.0),
    "ppo, masked": Objective(Surrogate("ppo"), {}, mismatch=Mismatch("mask", 0.5, 2.0)),
    "dpo": Objective(Surrogate("dpo", {"dpo_beta": 0.3}), {}, magnet=0.2),
    "dmpo": Objective(Surrogate("dmpo", {"dpo_beta": 0.3, "dmpo_gamma": 0.7}), {}),
    "kto": Objective(Surrogate("kto", {"dpo_beta": 0.3}), {}),
    "imitation": Objective(Surrogate("ppo"), {}),
    "distill": Objective(Surrogate("ppo"), {}),
}


@cache
def matches():
    """Return whole matches, eight of each of three deals; many seats speak more than once."""
    roles = roles_for(**RETRIED)
    requests = [
        MatchRequest(i, "kuhn_poker", i % 3, derive_seed(5, i), ("main", "main"), (True, True)) for i in range(24)
    ]
    episodes = played(engine_with(main=brief(kuhn_pocket())), requests, 24, roles)
    found = [t for t in to_trajectories(episodes, lambda _: roles, {"kuhn_poker": 2.0}) if t.turns]
    return [t._replace(match_return=float(i // 3 % 3 - 1)) for i, t in enumerate(found)]


@cache
def batch_of(name):
    """Return the batch of an objective, with the rows of its terms."""
    trajectories, objective = matches(), OBJECTIVES[name]
    advantages = [[t.match_return - 0.1 + 0.05 * k for k in range(len(t.turns))] for t in trajectories]
    packed = pack("main", trajectories, advantages, WEIGHT)
    ones = [1.0] * len(trajectories)
    facts = UpdateFacts(packed, trajectories, (), advantages, ones, WEIGHT)
    surrogate = objective.surrogate.name
    if name == "dpo":
        return _pairs()
    if name == "imitation":
        replies = [_imitated(t.turns[-1].trace) for t in trajectories[:9]]
        return packed.batch._replace(terms={name: draw_imitation(replies, 20, 0.7, 3)})
    if name == "distill":
        taught = tuple(
            TaughtTurns(True, i, "kuhn_poker/first", tuple(-0.5 - 0.1 * j for j in range(len(row.reply))), 2.0, 0.3)
            for i, row in enumerate(packed.batch.free)
        )
        return packed.batch._replace(terms={name: TaughtRows(0.4, "reverse", taught)})
    entry = LOSSES[surrogate]
    rows = {} if entry.rows is None else {surrogate: entry.rows(facts, objective.surrogate.table)}
    return packed.batch._replace(terms=rows)


def _pairs():
    """Return the batch of pairs of first replies to one prompt that differ."""
    first = [t._replace(turns=t.turns[:1], rewards=t.rewards[:1]) for t in matches() if t.seat == 0]
    said = [(t.turns[0].trace.prompt_ids, t.turns[0].trace.reply_ids) for t in first]
    pairs = [
        (i, j)
        for i, (asked, reply) in enumerate(said)
        for j, (other, answer) in enumerate(said)
        if asked == other and reply != answer and (i + j) % 3 == 0
    ]
    assert len(pairs) > 6
    packed = pack("main", first, [[0.0] for _ in first], WEIGHT)
    return packed.batch._replace(terms={"dpo": paired_replies(packed, first, pairs, WEIGHT)})


def _imitated(trace):
    return ImitatedReply("kuhn_poker", trace.prompt_ids, (), "", trace.reply_ids, 1.0, 2)


def losses_of(lm, name, waist=None, max_tokens=8192):
    """Return an objective's losses, after pi_old was taken with other weights than the present ones."""
    losses = BatchLoss(
        lm,
        kuhn_pocket(3),
        batch_of(name),
        OBJECTIVES[name],
        max_tokens=max_tokens,
        reference=kuhn_pocket(2),
        waist=waist,
    )
    losses.record_old(MetricSums())
    move(lm if waist is None else waist.trainer.policy.lm)
    if (scores := losses.score()) is not None:
        losses.weigh(scores)
    return losses


def gradient_of(lm):
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()])


def through(waist: Waist, name):
    """Return the loss and, at the trainer, leave the gradient of an objective that was learned through a waist."""
    total = 0.0
    for loss in losses_of(brief(kuhn_pocket()), name, waist).losses(0, MetricSums()):
        loss.backward()
        total += float(loss.detach())
    waist.trainer.accumulate(waist._replies, waist._slopes)
    return total
