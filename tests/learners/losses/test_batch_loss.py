"""The whole loss under every surrogate, normalisation and term: merged or not, against finite differences, by hand."""

import math
import random

import pytest
import torch
from support.learning.slopes import gradient, move, norm_and_rise
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import brief, copied

from learners.batching import to_batch
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import EntropyBand, Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.normalisation import Normalisation

NORMALISATIONS = ("constant", "token_mean", "sequence_mean", "role_mean", "rollout_mean", "prompt_mean")
SURROGATES = ("ppo", "gspo", "reinforce")
BARE = Objective(Surrogate(), {})
MEANS = {"kuhn_poker": 0.4}


def everything(name, **changes):
    """Return an objective of all terms at once, with this surrogate."""
    full = Objective(
        Surrogate(name, {"clip_low": 0.05, "clip_high": 0.05}),
        {"kuhn_poker": 0.1},
        kl_old=0.3,
        magnet=0.2,
        magnet_uniform=0.1,
        truncate=1.25,
        kl_reference=0.2,
        kl_estimator="k3",
        band=EntropyBand(0.5, 0.9, 1.1),
    )
    return full._replace(**changes)


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def exact(lm, request):
    """Return matches, every second opened by the one before."""
    return [t._replace(parent=t.match - 1 if t.match % 2 else None) for t in self_play(lm, 12, request.param)]


@pytest.fixture(scope="module")
def trajectories(exact):
    """Return the matches of an engine that is off by a fifth of each log-prob, and otherwise at every draw."""
    rng = random.Random(0)
    return [t._replace(turns=tuple(noisy(mistaken(turn), rng) for turn in t.turns)) for t in exact]


def mistaken(turn, factor=1.2):
    return turn._replace(trace=turn.trace._replace(logprobs=tuple(factor * p for p in turn.trace.logprobs)))


def noisy(turn, rng, nats=0.1):
    """Return a turn of an engine whose arithmetic gives each token another log-prob at every draw, as vLLM's does."""
    logprobs = tuple(p + rng.gauss(0.0, nats) for p in turn.trace.logprobs)
    return turn._replace(trace=turn.trace._replace(logprobs=logprobs))


def batch_of(trajectories, normalisation=Normalisation(), **options):  # noqa: B008 (a frozen record)
    advantages = [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]
    return to_batch("main", trajectories, advantages, {"kuhn_poker": 2.0}, normalisation, **options)


def losses_of(student, batch, objective, **cut):
    return BatchLoss(
        student,
        kuhn_pocket(1),
        batch,
        objective,
        max_tokens=8192,
        reference=kuhn_pocket(2),
        entropy_means=MEANS,
        **cut,
    )


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_merging_changes_nothing(lm, trajectories, surrogate, normalisation):
    results = []
    for merge in (True, False):
        batch = batch_of(trajectories, Normalisation(normalisation, 3), merge=merge)
        student, sums = copied(lm), MetricSums()
        losses = losses_of(student, batch, everything(surrogate))
        losses.record_old(MetricSums())
        move(student)
        results.append((*gradient(student, losses.losses(0, sums)), len(batch.choice + batch.free), sums))
    (loss, merged, few, sums), (single_loss, single, many, single_sums) = results
    assert few < many
    assert loss == pytest.approx(single_loss, rel=1e-5, abs=1e-6)
    largest = float(single.abs().max())
    assert largest > 1e-3
    torch.testing.assert_close(merged, single, atol=2e-6 * max(1.0, largest), rtol=0)
    assert 0.0 < sums.mean("truncated") < 1.0
    assert sums.mean("outside_band") > 0.0
    for metric in sums.totals:
        assert sums.mean(metric) == pytest.approx(single_sums.mean(metric), abs=1e-5)


TERMS = {
    **{name: everything(name) for name in SURROGATES},
    "k1": BARE._replace(kl_reference=1.0, kl_estimator="k1"),
    "k2": BARE._replace(kl_reference=1.0, kl_estimator="k2"),
    "k3": BARE._replace(kl_reference=1.0, kl_estimator="k3"),
    "band": BARE._replace(band=EntropyBand(1.0, 0.9, 1.1)),
}


@pytest.mark.parametrize("name", TERMS)
def test_the_gradient_is_the_slope_of_the_loss(lm, trajectories, name):
    """Along the gradient the loss rises by its norm: central differences through the whole model."""
    student = copied(lm)
    losses = losses_of(student, batch_of(trajectories, Normalisation("role_mean")), TERMS[name])
    losses.record_old(MetricSums())
    move(student, 1e-3)
    norm, rise = norm_and_rise(student, losses)
    assert rise == pytest.approx(norm, rel=0.03)


@torch.no_grad()
def token_logprobs(lm, trace):
    (chunk,) = lm.plan([trace.prompt_ids], [(trace.reply_ids,)], 8192)
    logprobs = lm.reply_logits(chunk, [trace.reply_ids])[0].log_softmax(-1)
    return logprobs.gather(1, torch.tensor(trace.reply_ids)[:, None])[:, 0]


@pytest.fixture
def reply(lm):
    """Return a trajectory of one free turn whose reply has several tokens."""
    return next(
        t._replace(turns=t.turns[:1])
        for t in self_play(lm, 12, FREE)
        if t.turns and len(t.turns[0].trace.reply_ids) == 3
    )


def test_gspo_with_sequence_mean_worked_by_hand(lm, reply):
    """One reply, advantage 2: the loss is -2 exp(mean over its tokens of log pi - log pi_old)."""
    student, trace = copied(lm), reply.turns[0].trace
    batch = to_batch("main", [reply], [[2.0]], {}, Normalisation("sequence_mean"))
    losses = BatchLoss(
        student, None, batch, Objective(Surrogate("gspo", {"clip_low": 1.0, "clip_high": 9.0}), {}), max_tokens=8192
    )
    old = token_logprobs(student, trace)
    losses.record_old(MetricSums())
    move(student, 0.05)
    log_ratios = token_logprobs(student, trace) - old
    assert float(log_ratios.std()) > 1e-3
    (loss,) = losses.losses(0, MetricSums())
    assert float(loss.detach()) == pytest.approx(-2 * math.exp(float(log_ratios.mean())), abs=1e-5)


def test_importance_weighs_each_token_worked_by_hand(lm, reply):
    """At ratio 1 a token's loss is -A min(pi_learner / pi_sampler, c); one of 3 tokens is at the bound."""
    turn = mistaken(reply.turns[0], 1.3)
    weights = [math.exp(p - 1.3 * p) for p in reply.turns[0].trace.logprobs]
    bound = 0.5 * (sorted(weights)[1] + max(weights))
    batch = to_batch("main", [reply._replace(turns=(turn,))], [[2.0]], {})
    sums = MetricSums()
    BatchLoss(copied(lm), None, batch, BARE._replace(truncate=bound), max_tokens=8192).record_old(sums)
    expected = [min(weight, bound) for weight in weights]
    assert sums.totals["loss"] == pytest.approx(-2 * sum(expected), abs=1e-4)
    assert sums.mean("importance") == pytest.approx(sum(expected) / 3, abs=1e-4)
    assert sums.mean("truncated") == pytest.approx(1 / 3)


def halve(turn):
    """Return the turn of an engine that gave each free token, or each choice, half of the learner's probability."""
    first, *rest = turn.trace.logprobs
    less = math.log(2)
    later = rest if turn.trace.mask else [p - less for p in rest]
    return turn._replace(trace=turn.trace._replace(logprobs=(first - less, *later)))


def test_importance_scales_the_policy_gradient_and_nothing_else(lm, exact):
    """An engine that gave every reply half its probability doubles the surrogate's gradient, not the entropy's."""
    halved = [t._replace(turns=tuple(halve(turn) for turn in t.turns)) for t in exact]
    gradients = {}
    for name, objective in {
        "surrogate": BARE,
        "entropy": Objective(Surrogate(), {"kuhn_poker": 1.0}),
        "weighed": Objective(Surrogate(), {"kuhn_poker": 1.0}, truncate=9.0),
    }.items():
        student = copied(lm)
        losses = losses_of(student, batch_of(halved), objective)
        losses.record_old(MetricSums())
        _, gradients[name] = gradient(student, losses.losses(0, MetricSums()))
    bonus = gradients["entropy"] - gradients["surrogate"]
    expected = 2 * gradients["surrogate"] + bonus
    torch.testing.assert_close(gradients["weighed"], expected, atol=1e-4 * float(expected.abs().max()), rtol=0)


def test_a_reference_is_needed_to_stay_near_it(lm, trajectories):
    with pytest.raises(ValueError, match="needs a policy that keeps its reference"):
        BatchLoss(lm, None, batch_of(trajectories), BARE._replace(kl_reference=0.1), max_tokens=8192)


def test_the_band_weighs_each_role_by_its_own_weight(lm, trajectories):
    """The gradients of the roles' bands sum to that of one band for all, and a role of weight 0 has none."""

    def found(band):
        student = copied(lm)
        losses = losses_of(student, batch_of(trajectories), BARE._replace(band=band))
        losses.record_old(MetricSums())
        return gradient(student, losses.losses(0, MetricSums()))[1]

    roles = sorted({f"{t.game}/{t.role}" for t in trajectories})
    off, both = found(EntropyBand(0.0)), found(EntropyBand(0.7, 1.0, 1.0))
    named = found(EntropyBand(0.1, 1.0, 1.0, roles=dict.fromkeys(roles, 0.7)))
    alone = [found(EntropyBand(0.0, 1.0, 1.0, roles={role: 0.7})) - off for role in roles]
    rest = [found(EntropyBand(0.7, 1.0, 1.0, roles={role: 0.0})) - off for role in roles]
    assert len(roles) == 2
    for role, part, without in zip(roles, alone, rest, strict=True):
        plays = any(t.turns for t in trajectories if f"{t.game}/{t.role}" == role)  # free replies: the first forfeits
        assert (float(part.abs().max()) > 1e-3) == plays
        torch.testing.assert_close(part + without, both - off, atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(sum(alone), both - off, atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(named, both, atol=1e-6, rtol=1e-5)


def test_a_game_without_a_running_mean_has_no_band(lm, trajectories):
    sums = MetricSums()
    objective = BARE._replace(band=EntropyBand(1.0, 1.0, 1.0))
    BatchLoss(lm, None, batch_of(trajectories), objective, max_tokens=8192).record_old(sums)
    assert sums.mean("outside_band") == 0.0


def test_length_divides_the_loss(lm, trajectories):
    totals = []
    for length in (1, 4):
        sums = MetricSums()
        losses_of(lm, batch_of(trajectories, Normalisation("constant", length)), everything("ppo")).record_old(sums)
        totals.append(sums.totals["loss"])
    assert totals[0] == pytest.approx(4 * totals[1], abs=1e-5)
