"""Packing: equal prompts become one row, and nothing about the gradient changes."""

import json
import math

import pytest
import torch
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import brief, copied

from arena.records import TokenTrace, Turn
from learners.batching import Draw, to_batch
from learners.losses.batch_loss import BatchLoss
from learners.losses.objective import Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.trajectories import Evidence, Trajectory, evidence_from_json, evidence_to_json
from roles.truncation import NO_TRUNCATION, Truncation

LEGAL = ("pass", "bet")


def turn(reply="bet", prompt=(1, 2), legal=LEGAL, snapshot="main", temperature=1.0, mask=True, reply_ids=(7, 9)):
    logprobs = (-0.5, 0.0) if mask else (-0.5, -0.25)
    trace = TokenTrace(snapshot, prompt, reply_ids, logprobs, legal if mask else None, temperature)
    return Turn(0, "first", snapshot, "", legal, reply, reply, 0.0, trace)


def trajectory(*turns, game="kuhn_poker"):
    return Trajectory(game, "first", "main", 0, 0, 0, ("main", "main"), turns, (0.0,) * len(turns), 0.0)


def test_equal_prompts_are_one_row_worked_by_hand():
    batch = to_batch(
        "main",
        [trajectory(turn("bet"), turn("pass")), trajectory(turn("bet"), turn("bet", prompt=(1, 3)))],
        [[2.0, -1.0], [-0.5, 0.25]],
        {"kuhn_poker": 3.0},
    )
    first, second = batch.choice
    assert (first.prompt, first.legal, first.counts) == ((1, 2), LEGAL, [1.0, 2.0])
    assert (first.gains, first.losses) == ([0.0, 1.5], [-0.75, -0.375])
    assert first.draws == (Draw(1, (-0.5,), 2.0, 1.5, -0.375), Draw(0, (-0.5,), 1.0, 0.0, -0.75))
    assert (second.prompt, second.counts, second.gains) == ((1, 3), [0.0, 1.0], [0.0, 0.1875])
    assert second.draws == (Draw(1, (-0.5,), 1.0, 0.1875, 0.0),)
    assert (first.weights, second.weights) == ([0.75, 1.5], [0.0, 0.75])  # a turn weighs 3 / 4
    assert (batch.policy, batch.turns, batch.snapshots, batch.free) == ("main", 4, ("main",), ())


def test_the_credit_of_all_replies_takes_the_place_of_that_of_the_one_drawn():
    """Two turns of weight 1/2 each: one says of both replies what they were worth, one of a third prompt of none."""
    evidence = [Evidence(reply_credits=((0.5, -0.5),)), Evidence()]
    batch = to_batch(
        "main",
        [trajectory(turn("bet")), trajectory(turn("bet", prompt=(1, 3)))],
        [[-2.0], [4.0]],
        {"kuhn_poker": 1.0},
        evidence=evidence,
    )
    first, second = batch.choice
    assert (first.counts, first.weights) == ([0.0, 1.0], [0.0, 0.5])
    assert (first.gains, first.losses) == ([0.25, 0.0], [0.0, -0.25])
    assert (second.gains, second.losses) == ([0.0, 2.0], [0.0, 0.0])
    assert [evidence_from_json(json.loads(json.dumps(evidence_to_json(known)))) for known in evidence] == evidence
    assert "reply_credits" not in evidence_to_json(evidence[1])


def test_equal_free_replies_are_one_row_worked_by_hand():
    turns = [turn(mask=False), turn(mask=False), turn(mask=False, reply_ids=(8, 9))]
    batch = to_batch("main", [trajectory(*turns)], [[1.5, -0.5, 1.0]], {"kuhn_poker": 6.0})
    assert [(row.reply, row.visits, row.weight, row.gain, row.loss) for row in batch.free] == [
        ((7, 9), 2.0, 4.0, 3.0, -1.0),  # a turn weighs 6 / 3
        ((8, 9), 1.0, 2.0, 2.0, 0.0),
    ]
    assert batch.free[0].draws == (Draw(0, (-0.5, -0.25), 2.0, 3.0, -1.0),)


@pytest.mark.parametrize("mask", [True, False])
def test_draws_with_other_log_probs_are_kept_apart_in_one_row(mask):
    """Three draws of one reply at -0.5 nats and one at -0.75: each keeps its own advantages."""
    turns = [turn(mask=mask) for _ in range(4)]
    turns[2] = turns[2]._replace(trace=turns[2].trace._replace(logprobs=(-0.75, 0.0) if mask else (-0.75, -0.25)))
    batch = to_batch("main", [trajectory(*turns)], [[1.0, -2.0, 0.5, -0.25]], {"kuhn_poker": 4.0})
    (row,) = batch.choice + batch.free
    usual, other = ((-0.5,), (-0.75,)) if mask else ((-0.5, -0.25), (-0.75, -0.25))
    reply = LEGAL.index("bet") if mask else 0
    assert row.draws == (Draw(reply, usual, 3.0, 1.0, -2.25), Draw(reply, other, 1.0, 0.5, 0.0))


@pytest.mark.parametrize(
    "other", [{"snapshot": "old"}, {"temperature": 0.5}, {"prompt": (1, 2, 3)}, {"legal": ("bet", "pass")}]
)
@pytest.mark.parametrize("mask", [True, False])
def test_what_was_sampled_in_another_way_is_another_row(mask, other):
    batch = to_batch("main", [trajectory(turn(mask=mask), turn(mask=mask, **other))], [[1.0, 1.0]], {})
    assert len(batch.choice + batch.free) == (1 if not mask and "legal" in other else 2)


def test_free_replies_of_other_truncation_are_other_rows_with_their_own():
    """As it is sampled, or a plain list of numbers, as it is read."""
    turns = [turn(mask=False) for _ in range(3)]
    for index, truncation in ((1, Truncation(top_p=0.9)), (2, (0, 0.9, 0.0))):
        turns[index] = turns[index]._replace(trace=turns[index].trace._replace(truncation=truncation))
    batch = to_batch("main", [trajectory(*turns)], [[1.0] * 3], {})
    assert [(row.visits, row.truncation) for row in batch.free] == [(1.0, NO_TRUNCATION), (2.0, Truncation(0, 0.9))]


def test_games_weigh_as_told_however_many_turns_they_have():
    batch = to_batch(
        "main",
        [trajectory(turn(), turn("pass"), turn(prompt=(5,))), trajectory(turn(), game="tic_tac_toe")],
        [[1.0] * 3, [1.0]],
        {"kuhn_poker": 0.25},
    )
    totals = {}
    for row in batch.choice:
        totals[row.game] = totals.get(row.game, 0.0) + sum(row.weights)
    assert totals == {"kuhn_poker": pytest.approx(0.25), "tic_tac_toe": pytest.approx(1.0)}


def test_a_submatch_weighs_as_the_game_that_its_rollout_began_in():
    """A game has two turns of its own, of weight 3, and one that "chain", of weight 0.25, has opened: rows apart."""
    own, planner = trajectory(turn(), turn("pass"), game="find"), trajectory(turn(), game="chain")
    opened = trajectory(turn(), game="find")._replace(root=0, root_game="chain")
    weights = {"chain": 0.25, "find": 3.0}
    batch = to_batch("main", [own, planner, opened], [[1.0, 1.0], [1.0], [1.0]], weights)
    assert [(row.game, row.root_game, sum(row.weights)) for row in batch.choice] == [
        ("find", "find", 3.0),
        ("chain", "chain", 0.25),
        ("find", "chain", 0.25),
    ]
    free = [t._replace(turns=tuple(turn(mask=False) for _ in t.turns)) for t in (own, planner, opened)]
    batch = to_batch("main", free, [[1.0, 1.0], [1.0], [1.0]], weights)
    assert [(row.game, row.root_game, row.weight) for row in batch.free] == [
        ("find", "find", 3.0),
        ("chain", "chain", 0.25),
        ("find", "chain", 0.25),
    ]


def test_a_forced_reply_counts_as_a_turn_and_teaches_nothing():
    batch = to_batch("main", [trajectory(turn("roll", legal=("roll",)), turn())], [[1.0, 1.0]], {})
    assert (batch.turns, len(batch.choice), batch.choice[0].weights) == (2, 1, [0.0, 0.5])


def test_turns_that_kept_no_tokens_are_refused_by_name():
    with pytest.raises(ValueError, match="Match 0 trains role first on a turn of 'main', which has no tokens"):
        to_batch("main", [trajectory(turn()._replace(trace=None))], [[1.0]], {})


@pytest.mark.parametrize("advantages", [[[1.0]], [[1.0, 2.0], [1.0]], []])
def test_advantages_that_do_not_fit_are_refused(advantages):
    with pytest.raises(ValueError, match="zip"):
        to_batch("main", [trajectory(turn(), turn())], advantages, {})


@pytest.fixture(scope="module")
def lm():
    return brief(kuhn_pocket())


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def trajectories(lm, request):
    return self_play(lm, 20, request.param)


def advantages_of(trajectories):
    """Return advantages of both signs that differ between the turns of one prompt."""
    return [[math.sin(7 * i + 3 * k) for k in range(len(t.turns))] for i, t in enumerate(trajectories)]


FULL = Objective(
    Surrogate("ppo", {"clip_low": 0.05, "clip_high": 0.05}),
    {"kuhn_poker": 0.1},
    kl_old=0.3,
    magnet=0.2,
    magnet_uniform=0.1,
)
OBJECTIVES = {
    "all terms": FULL,
    "reinforce": Objective(Surrogate("reinforce"), {}),
    "dual clip": Objective(Surrogate("ppo", {"clip_low": 0.01, "clip_high": 0.01, "dual_clip": 1.02}), {}),
}


def gradient(lm, losses):
    """Return the gradient of summed losses as one vector."""
    lm.model.zero_grad()
    for loss in losses:
        loss.backward()
    return torch.cat([p.grad.flatten() for p in lm.model.parameters()])


def assert_equal_gradients(gradient_a, gradient_b):
    """Hold the largest difference to what single precision rounds in sums of other order: each thread has its own.

    32 units of the largest entry, or of 1 where that is below; two threads were seen to differ by 14.
    """
    unit = torch.finfo(torch.float32).eps * max(1.0, float(gradient_b.abs().max()))
    torch.testing.assert_close(gradient_a, gradient_b, atol=32 * unit, rtol=0)


def moved(lm, batch, objective, **cut):
    """Return a model one step away from pi_old, and the batch's loss at it."""
    student = copied(lm)
    losses = BatchLoss(student, kuhn_pocket(1), batch, objective, max_tokens=8192, **cut)
    losses.record_old(MetricSums())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in student.model.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))
    return student, losses


@pytest.mark.parametrize("name", OBJECTIVES)
def test_merging_changes_neither_loss_nor_gradient(lm, trajectories, name):
    results = {}
    for merge in (True, False):
        batch = to_batch("main", trajectories, advantages_of(trajectories), {}, merge=merge)
        student, losses = moved(lm, batch, OBJECTIVES[name])
        sums = MetricSums()
        terms = list(losses.losses(0, sums))
        rows = len(batch.choice + batch.free)
        results[merge] = rows, float(sum(term.detach() for term in terms)), gradient(student, terms), sums
    (few, loss, merged, sums), (many, single_loss, single, single_sums) = results[True], results[False]
    assert few < many == sum(len(t.turns) for t in trajectories)
    assert loss == pytest.approx(single_loss, abs=1e-6)
    assert float(single.abs().max()) > 1e-3
    assert_equal_gradients(merged, single)
    for metric in sums.totals:
        assert sums.mean(metric) == pytest.approx(single_sums.mean(metric), abs=1e-5)


def test_minibatches_are_on_average_the_whole_batch(lm, trajectories):
    batch = to_batch("main", trajectories, advantages_of(trajectories), {})
    student, losses = moved(lm, batch, FULL)
    expected = gradient(student, losses.losses(0, MetricSums()))
    student, minibatches = moved(lm, batch, FULL, minibatches=3, minibatch_rows=2)
    gradients = [gradient(student, minibatches.losses(step, MetricSums())) for step in range(3)]
    assert not torch.allclose(gradients[0], gradients[1], atol=1e-4)
    assert_equal_gradients(sum(gradients) / 3, expected)


def test_a_game_with_few_prompts_is_in_every_minibatch(lm, trajectories):
    batch = to_batch("main", trajectories, advantages_of(trajectories), {})
    student, losses = moved(lm, batch, FULL, minibatches=3, minibatch_rows=1000)
    first, second = (gradient(student, losses.losses(step, MetricSums())) for step in (0, 1))
    assert torch.equal(first, second)


def test_a_small_budget_changes_nothing(lm, trajectories):
    batch = to_batch("main", trajectories[:6], advantages_of(trajectories[:6]), {})
    gradients, chunks = [], []
    for budget in (8192, 1):
        losses = BatchLoss(lm, kuhn_pocket(1), batch, FULL, max_tokens=budget)
        losses.record_old(MetricSums())
        terms = list(losses.losses(0, MetricSums()))
        chunks.append(len(terms))
        gradients.append(gradient(lm, terms))
    assert chunks[0] < chunks[1] == len(batch.choice + batch.free)
    assert_equal_gradients(gradients[0], gradients[1])


def test_the_loss_at_the_old_policy_worked_by_hand(lm):
    """At ratio 1: minus the mean advantage, minus the entropy bonus; no divergence from the old policy."""
    trajectories = self_play(lm, 8, CHOICE)
    advantages = advantages_of(trajectories)
    batch = to_batch("main", trajectories, advantages, {"kuhn_poker": 2.0})
    sums = MetricSums()
    BatchLoss(lm, None, batch, FULL._replace(magnet=0.0), max_tokens=8192).record_old(sums)
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    entropies = []
    for played in turns:
        tries = [lm.trie(played.legal)]
        (chunk,) = lm.plan_choice([played.trace.prompt_ids], tries, 8192)
        with torch.no_grad():
            probabilities = lm.choice_logprobs(chunk, tries, 1.0).replies[0].exp().tolist()
        entropies.append(-math.fsum(p * math.log(p) for p in probabilities))
    mean_advantage = math.fsum(a for advantages_K in advantages for a in advantages_K) / len(turns)
    mean_entropy = math.fsum(entropies) / len(turns)
    assert sums.totals["loss"] == pytest.approx(2.0 * (-mean_advantage - 0.1 * mean_entropy), abs=1e-5)
    assert sums.mean("entropy") == pytest.approx(mean_entropy, abs=1e-5)
    assert sums.mean("gap") < 1e-5
    assert sums.mean("kl_old") == 0.0
    assert sums.totals["turns"] == len(turns)
