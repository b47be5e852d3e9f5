"""KTO and multi-turn DPO: the loss and gradient of whole trajectories by plain means, and in several processes."""

import math
from dataclasses import dataclass, field

import pytest
import torch
from support.learning.slopes import gradient, move, shift
from support.matches.kuhn import CHOICE, FREE, engine_with, kuhn_pocket, played, roles_for
from support.models.pocket import brief, copied

from arena.records import MatchRequest
from games.common.seeds import derive_seed
from learners.batching import pack
from learners.losses import LOSSES
from learners.losses.batch_loss import BatchLoss
from learners.losses.dmpo import paired
from learners.losses.dpo import dpo_loss
from learners.losses.kto import kto_loss, labelled
from learners.losses.objective import Objective, Surrogate
from learners.losses.term import UpdateFacts
from learners.metric_sums import MetricSums
from learners.parallel.process_group import SINGLE_PROCESS
from learners.trajectories import to_trajectories

GAMMA, BETA = 0.7, 0.3
DMPO = Objective(Surrogate("dmpo", {"dpo_beta": BETA, "dmpo_gamma": GAMMA}), {})
KTO = Objective(Surrogate("kto", {"dpo_beta": BETA}), {})
RETRIED = FREE | {"on_illegal": "retry"}
WEIGHT = {"kuhn_poker": 2.0}


@dataclass
class Case:
    trajectories: list
    advantages: list = field(default_factory=list)

    def __post_init__(self):
        self.advantages = [[t.match_return - 0.1] * len(t.turns) for t in self.trajectories]

    def batch(self, objective, **options):
        facts, name = self.facts(**options), objective.surrogate.name
        return facts.packed.batch._replace(terms={name: LOSSES[name].rows(facts, objective.surrogate.table)})

    def facts(self, advantages=None, weights=None, **options):
        advantages = self.advantages if advantages is None else advantages
        packed = pack("main", self.trajectories, advantages, WEIGHT, weights=weights, **options)
        weights = [1.0] * len(self.trajectories) if weights is None else weights
        return UpdateFacts(packed, self.trajectories, (), advantages, weights, WEIGHT)


class Scored(BatchLoss):
    """A batch's loss whose trajectories are scored before each step, as an update does."""

    def losses(self, step, sums):
        self.weigh(self.score())
        yield from super().losses(step, sums)


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, RETRIED], ids=["choice", "free"])
def case(lm, request):
    """Return whole matches of Kuhn poker, eight of each of three deals; some seats speak more than once."""
    roles = roles_for(**request.param)
    requests = [
        MatchRequest(i, "kuhn_poker", i % 3, derive_seed(5, i), ("main", "main"), (True, True)) for i in range(24)
    ]
    episodes = played(engine_with(main=lm), requests, 24, roles)
    trajectories = [t for t in to_trajectories(episodes, lambda _: roles, {"kuhn_poker": 2.0}) if t.turns]
    if request.param is CHOICE:
        assert {len(t.turns) for t in trajectories} == {1, 2}
        return Case(trajectories)
    assert {len(t.turns) for t in trajectories} >= {3}, "an illegal reply is another turn"
    return Case([t._replace(match_return=float(i // 3 % 3 - 1)) for i, t in enumerate(trajectories)])


def log_prob(model, prompt, trace, reply, ids):
    """Return one reply's log-prob with its graph, by a pass of its own."""
    if trace.mask is not None:
        tries = [model.trie(trace.mask)]
        (chunk,) = model.plan_choice([prompt], tries, 8192)
        return model.choice_logprobs(chunk, tries, 1.0).replies[0, trace.mask.index(reply)]
    (chunk,) = model.plan([prompt], [(ids,)], 8192)
    scores = model.reply_logits(chunk, [ids])[0].log_softmax(-1)
    return scores.gather(1, torch.tensor(ids)[:, None]).sum()


def log_ratio(lm, reference, prompt, trace, reply, ids):
    with torch.no_grad():
        base = log_prob(reference, prompt, trace, reply, ids)
    return log_prob(lm, prompt, trace, reply, ids) - base


def plain_scores(lm, reference, trajectories, discounted):
    """Return each trajectory's score, turn by turn as the papers write it."""
    scores = []
    for t in trajectories:
        turns = len(t.turns)
        weights = [
            GAMMA**k * (1 - GAMMA ** (turns - k)) / (1 - GAMMA**turns) if discounted else 1.0 for k in range(turns)
        ]
        traces = [turn.trace for turn in t.turns]
        scores.append(
            sum(
                weight * log_ratio(lm, reference, trace.prompt_ids, trace, turn.reply, trace.reply_ids)
                for weight, trace, turn in zip(weights, traces, t.turns, strict=True)
            )
        )
    return scores


def plain_dmpo(lm, reference, case):
    scores = plain_scores(lm, reference, case.trajectories, True)
    found = [
        (a, b)
        for a, better in enumerate(case.trajectories)
        for b, worse in enumerate(case.trajectories)
        if (better.seat, better.deal_seed) == (worse.seat, worse.deal_seed)
        and better.match_return > worse.match_return
        and [(turn.trace.prompt_ids, turn.reply) for turn in better.turns]
        != [(turn.trace.prompt_ids, turn.reply) for turn in worse.turns]
    ]
    assert len(found) > 10
    return 2.0 * torch.stack([dpo_loss(scores[a], scores[b], BETA) for a, b in found]).mean()


def plain_kto(lm, reference, case):
    """Return the loss; the reference point is exact where replies are chosen, else from mismatched replies."""
    trajectories = case.trajectories
    scores = torch.stack(plain_scores(lm, reference, trajectories, False))
    points = {}
    for seat in {t.seat for t in trajectories}:
        mine = [t for t in trajectories if t.seat == seat]
        nats = []
        for i, t in enumerate(mine):
            other = mine[(i + len(mine) // 2) % len(mine)]
            for k, turn in enumerate(t.turns):
                trace = turn.trace
                with torch.no_grad():
                    if trace.mask is None:
                        if k < len(other.turns):
                            ids = other.turns[k].trace.reply_ids
                            nats.append(float(log_ratio(lm, reference, trace.prompt_ids, trace, None, ids)))
                    else:
                        for reply in trace.mask:
                            own = log_prob(lm, trace.prompt_ids, trace, reply, None)
                            ratio = log_ratio(lm, reference, trace.prompt_ids, trace, reply, None)
                            nats.append(float(own.exp() * ratio))
        points[seat] = max(0.0, sum(nats) / len(mine))
    desirable = torch.tensor([t.match_return > 0.1 for t in trajectories])
    return (
        2.0
        * kto_loss(scores, torch.tensor([points[t.seat] for t in trajectories]), desirable, KTO.surrogate.table).mean()
    )


PLAIN = [(DMPO, plain_dmpo), (KTO, plain_kto)]


def losses_of(student, case, objective, reference, **cut):
    options = {"max_tokens": 8192, **cut}
    merge = options.pop("merge", True)
    return Scored(student, None, case.batch(objective, merge=merge), objective, reference=reference, **options)


@pytest.mark.parametrize(("objective", "plainly"), PLAIN, ids=["dmpo", "kto"])
@pytest.mark.parametrize("cut", [{}, {"max_tokens": 30}, {"minibatches": 3}], ids=["one", "chunks", "minibatches"])
def test_loss_and_gradient_are_the_plain_ones(lm, case, objective, plainly, cut):
    student, reference = copied(lm), kuhn_pocket(2)
    move(student)
    sums = MetricSums()
    loss, slope = gradient(student, losses_of(student, case, objective, reference, **cut).losses(0, sums))
    expected_loss, expected = gradient(student, [plainly(student, reference, case)])
    assert loss == pytest.approx(expected_loss, rel=1e-4)
    assert float(expected.abs().max()) > 1e-3
    torch.testing.assert_close(slope, expected, atol=2e-5 * float(expected.abs().max()) + 2e-6, rtol=1e-3)
    counted = "pairs" if objective is DMPO else "trajectories"
    assert sums.totals[counted] == pytest.approx(
        len(case.batch(objective).terms["dmpo"].pairs) if objective is DMPO else len(case.trajectories)
    )


def test_the_gradient_is_the_slope_of_the_loss(lm, case):
    """Along the gradient the loss of pairs rises by its norm: central differences through the whole model."""
    student, reference = copied(lm), kuhn_pocket(2)
    losses, values = losses_of(student, case, DMPO, reference), []
    _, slope = gradient(student, losses.losses(0, MetricSums()))
    norm = float(slope.norm())
    for sign in (1, -1):
        shift(student, slope / norm, sign * 1e-3)
        with torch.no_grad():
            values.append(sum(float(loss) for loss in losses.losses(0, MetricSums())))
        shift(student, slope / norm, -sign * 1e-3)
    assert (values[0] - values[1]) / 2e-3 == pytest.approx(norm, rel=0.03)


@pytest.mark.parametrize("objective", [DMPO, KTO], ids=["dmpo", "kto"])
def test_merged_rows_have_the_gradient_of_single_ones(lm, case, objective):
    reference, slopes = kuhn_pocket(2), []
    for merge in (True, False):
        student = copied(lm)
        move(student)
        losses = losses_of(student, case, objective, reference, merge=merge)
        slopes.append(gradient(student, losses.losses(0, MetricSums()))[1])
    torch.testing.assert_close(*slopes, atol=2e-5 * float(slopes[0].abs().max()), rtol=1e-3)


@pytest.mark.parametrize("objective", [DMPO, KTO], ids=["dmpo", "kto"])
def test_two_processes_take_the_step_of_one(lm, case, objective):
    """Each scores its rows; scores are summed, and so are gradients."""

    class Half:
        def __init__(self, rank):
            self.rank = rank

        def local_units(self, units, rows):
            return units[self.rank :: 2]

    reference, batch = kuhn_pocket(2), case.batch(objective)
    students = [copied(lm) for _ in range(3)]
    halves = [
        BatchLoss(student, None, batch, objective, max_tokens=64, reference=reference, process_group=Half(rank))
        for rank, student in enumerate(students[:2])
    ]
    parts = [half.score() for half in halves]
    summed = [[a + b for a, b in zip(*numbers, strict=True)] for numbers in zip(*parts, strict=True)]
    results = []
    for half, student in zip(halves, students[:2], strict=True):
        half.weigh(summed)
        results.append(gradient(student, half.losses(0, MetricSums())))
    loss, slope = gradient(students[2], losses_of(students[2], case, objective, reference).losses(0, MetricSums()))
    assert sum(value for value, _ in results) == pytest.approx(loss, rel=1e-4)
    torch.testing.assert_close(results[0][1] + results[1][1], slope, atol=2e-5 * float(slope.abs().max()), rtol=1e-3)


def test_where_policy_and_reference_are_one_nothing_is_preferred(lm, case):
    sums = MetricSums()
    sum(losses_of(copied(lm), case, DMPO, lm).losses(0, sums)).backward()
    assert sums.mean("margin", "pairs") == pytest.approx(0.0, abs=1e-4)
    value = sum(loss.item() for loss in losses_of(copied(lm), case, DMPO, lm).losses(0, MetricSums()))
    assert value == pytest.approx(2.0 * math.log(2), abs=1e-4)
    value = sum(loss.item() for loss in losses_of(copied(lm), case, KTO, lm).losses(0, MetricSums()))
    assert value == pytest.approx(1.0, abs=1e-4), "half of each, in two games"


def test_labels_leave_out_what_is_neither_good_nor_bad(case):
    settings, none = KTO.surrogate.table, [[0.0] * len(t.turns) for t in case.trajectories]
    assert labelled(case.facts(none), settings).scored == ()
    dropped = [0.0, *[1.0] * (len(none) - 1)]
    left = labelled(case.facts(weights=dropped), settings).scored
    assert len(left) == len(none) - 1
    assert sum(one.weight for one in left) == pytest.approx(WEIGHT["kuhn_poker"])


def test_pairs_leave_out_trajectories_of_no_weight(case):
    """What has weight 0 has no row either."""
    weights = [float(i % 2) for i in range(len(case.trajectories))]
    found = paired(case.facts(weights=weights), DMPO.surrogate.table)
    assert 0 < len(found.scored) <= sum(weights)
    assert 0 < len(found.pairs) < len(case.batch(DMPO).terms["dmpo"].pairs)
    assert sum(pair.weight for pair in found.pairs) == pytest.approx(WEIGHT["kuhn_poker"])


def test_one_process_has_its_own_sums():
    assert SINGLE_PROCESS.sum_numbers([1.0, 2.5]) == [1.0, 2.5]
