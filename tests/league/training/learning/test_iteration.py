"""One iteration's learning: when updates are due, when the magnet follows, what pairs are made of, what is fitted."""

import itertools
import json
from pathlib import Path
from statistics import fmean

import pytest
import torch
from support.learning.trees import tree
from support.matches.kuhn import CHOICE, kuhn_pocket, self_play

from arena.records import TokenTrace
from league.config import RunConfig
from league.config.context import run_context
from league.config.schedules import objective_at, steps_at
from league.training.checkpoints.learner_checkpoint import LearningState
from league.training.evidence.sources import gather_evidence
from league.training.learning import data_parallel
from league.training.learning.data_parallel import UpdateTask
from league.training.learning.iteration import learning_now, select_turns, update_policies
from league.training.learning.learner import LearnerReport, merge_reports
from league.training.learning.policies import new_policy
from learners.advantages.rule import Credited
from learners.batching import to_batch
from learners.parallel.process_group import SINGLE_PROCESS
from learners.trajectories import Evidence
from learners.update.critic import Critic
from learners.update.policy import Policy

GAME = "relay_arithmetic"  # a match pays 0 or 1: the scale is 1/2, so that returns are 0 or 2, and their middle is 1


@pytest.fixture(scope="module")
def matches():
    return self_play(kuhn_pocket(), 4, CHOICE)


def credited(trajectories, advantage=1.0):
    return Credited([[advantage] * len(t.turns) for t in trajectories], [1.0] * len(trajectories), {})


def weights(lm):
    return torch.cat([parameter.detach().flatten() for parameter in lm.model.parameters()])


def updated_here(config, policy, matches, number):
    update_policies(
        config, LearningState({"main": policy}), matches, [Evidence()] * len(matches), credited(matches), number
    )


def updated_with_followers(config, policy, matches, number):
    """Take the update as a follower does, in a group of one."""
    batch = to_batch("main", matches, credited(matches).advantages, {})
    task = UpdateTask("main", False, batch, objective_at(config, number, "main"), steps_at(config, number, "main"))
    data_parallel._run_task(config, SINGLE_PROCESS, policy, task, policy)


@pytest.mark.parametrize("take", [updated_here, updated_with_followers])
def test_the_magnet_follows_every_so_many_updates_and_not_in_between(matches, take):
    objective = {"magnet": 0.1, "magnet_every": 3}
    config = RunConfig(games={"kuhn_poker": {}}, objective=objective, optimizer={"inner_steps": 1, "max_gap": 99.0})
    policy = new_policy(run_context(config, Path()), "main", kuhn_pocket())
    magnets, models = [weights(policy.magnet)], [weights(policy.lm)]
    for number in range(1, 7):
        take(config, policy, matches, number)
        magnets.append(weights(policy.magnet))
        models.append(weights(policy.lm))
    assert not any(torch.equal(before, after) for before, after in itertools.pairwise(models))
    for number, magnet in enumerate(magnets):
        assert torch.equal(magnet, models[number - number % 3]), f"the magnet after update {number}"


def test_in_the_warm_up_of_critics_they_alone_learn(matches):
    """Two iterations: a critic fitted on returns of 1 goes towards them, and the policy that it values rests."""
    credit = {"rules": {"kuhn_poker/first": "gae_turn"}}
    critic = {"warmup": 2, "hidden_size": 8}
    config = RunConfig(games={"kuhn_poker": {}}, credit=credit, critic=critic, optimizer={"max_gap": 99.0})
    policy = new_policy(run_context(config, Path()), "main", kuhn_pocket())
    own = [t for t in matches if t.role == "first"]
    policy.critic = Critic(32, ("kuhn_poker/first",), config.critic, 0)
    evidence = [Evidence(values=(0.0,) * len(t.turns)) for t in own]
    models, values, told = [weights(policy.lm)], [], []
    for number in range(1, 4):
        values.append(fmean(itertools.chain.from_iterable(policy.critic.values(policy.lm, own, evidence))))
        told.append(update_policies(config, LearningState({"main": policy}), own, evidence, credited(own), number))
        models.append(weights(policy.lm))
    assert [torch.equal(before, after) for before, after in itertools.pairwise(models)] == [True, True, False]
    assert values[0] < values[1] < values[2] <= 1.0
    assert ["main/loss" in metrics for metrics in told] == [False, False, True]


def spoken(batch, scale):
    """Return a tree whose siblings say different things, with returns divided by ``scale``."""
    said = []
    for index, t in enumerate(batch):
        reply = str(index // 3 // 2 ** (2 - t.seat) % 2)
        trace = TokenTrace("main", (t.seat, *t.branch[: t.seat]), (7, int(reply)), (-0.1, -0.1), ("0", "1"))
        turns = tuple(turn._replace(reply=reply, legal=("0", "1"), trace=trace) for turn in t.turns)
        said.append(t._replace(turns=turns, match_return=t.match_return / scale))
    return said


@pytest.mark.parametrize(("scaled", "scale"), [(True, 0.5), (False, 1.0)])
def test_a_reply_is_good_above_the_middle_of_the_returns_as_they_are_scaled(scaled, scale):
    """Leaves 1 1 | 1 0 || 0 0 | 1 0: answers 3/4, 1/4; critiques 1, 1/2, 0, 1/2. By hand there are four pairs.

    Critiques of 1/2 are not good; were the middle of scaled returns 1/2, they were, and the one before 0 a fifth pair.
    """
    batch = spoken(tree([1, 1, 1, 0, 0, 0, 1, 0]), scale)
    config = RunConfig(games={GAME: {}}, credit={"rule": "malt", "scale_returns": scaled}, objective={"name": "dpo"})
    (rows,) = batches_of(config, batch, [1])
    places = [(pair.chosen, pair.rejected) for pair in rows.terms["dpo"].pairs]
    assert all(chosen.row == rejected.row for chosen, rejected in places)
    pairs = [(rows.choice[chosen.row].prompt[0], chosen.reply, rejected.reply) for chosen, rejected in places]
    assert sorted(pairs) == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (2, 0, 1)]


def batches_of(config, trajectories, iterations, weights=None, evidence=None):
    """Return the batches that the policy main updates on, where each iteration plays these trajectories again."""
    batches, state = [], LearningState({"main": Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=False)})

    def update(policy, batch, objective, steps):
        batches.append(batch)
        return {}

    given = credited(trajectories)
    given = given if weights is None else given._replace(weights=weights)
    for number in iterations:
        known = evidence or [Evidence()] * len(trajectories)
        update_policies(config, state, trajectories, known, given, number, update)
    return batches


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_policy_gradient_weighs_the_credit_of_all_replies_too(matches, weight):
    """At 0 nothing of the game's returns is in the batch: what stands beside it is learned alone."""
    by_reply = [Evidence(reply_credits=tuple((0.25, -0.25) for _ in t.turns)) for t in matches]
    sums = {}
    for name, objective in (("whole", {}), ("weighed", {"policy_gradient": weight, "distill": 1.0})):
        config = RunConfig(games={"kuhn_poker": {}}, objective=objective)
        (batch,) = batches_of(config, matches, [1], evidence=by_reply)
        sums[name] = [sum(row.gains) for row in batch.choice], [sum(row.losses) for row in batch.choice]
    assert max(sums["whole"][0]) > 0.0
    assert min(sums["whole"][1]) < 0.0
    for whole, weighed in zip(sums["whole"], sums["weighed"], strict=True):
        assert weighed == pytest.approx([weight * number for number in whole])


def test_an_update_is_due_when_enough_is_gathered_and_in_the_last_iteration(matches):
    """Every third of eight iterations, and the last one, which has two."""
    config = RunConfig(iterations=8, games={"kuhn_poker": {}}, policies={"main": {"every": 3}})
    turns = sum(len(t.turns) for t in matches)
    assert [batch.turns for batch in batches_of(config, matches, range(1, 9))] == [3 * turns, 3 * turns, 2 * turns]
    assert len(batches_of(config, matches, range(1, 6))) == 1


@pytest.mark.parametrize(("share", "iterations"), [(1.0, 1), (1.5, 2), (2.5, 3), (0.0, 1)])
def test_an_update_waits_for_so_many_tokens_in_whole_iterations(matches, share, iterations):
    """The last of six iterations has what is left."""
    tokens = sum(len(turn.trace.reply_ids) for trajectory in matches for turn in trajectory.turns)
    policies = {"main": {"tokens": round(share * tokens)}}
    config = RunConfig(iterations=6, games={"kuhn_poker": {}}, policies=policies)
    turns = sum(len(t.turns) for t in matches)
    assert [b.turns for b in batches_of(config, matches, range(1, 7))] == [iterations * turns] * (6 // iterations)


def test_no_update_is_of_more_matches_than_its_policy_takes(matches):
    config = RunConfig(iterations=1, games={"kuhn_poker": {}}, policies={"main": {"matches": 2}})
    (batch,) = batches_of(config, matches, [1])
    turns = {m: sum(len(t.turns) for t in matches if t.match == m) for m in range(4)}
    assert batch.turns in {turns[a] + turns[b] for a in turns for b in turns if a < b} - {sum(turns.values())}


def test_policies_take_turns_from_the_first_on():
    table = {"games": {"kuhn_poker": {}}, "policies": {"b": {"frozen": True}}}
    alternating, together = RunConfig(**table, alternate=2), RunConfig(**table)
    learned = [learning_now(alternating, ["a", "b", "c"], i) for i in range(1, 8)]
    assert learned == [["a"], ["a"], ["c"], ["c"], ["a"], ["a"], ["c"]]
    assert learning_now(together, ["a", "b", "c"], 5) == ["a", "c"]


def test_a_rollouts_tokens_count_with_their_trajectories_weights(matches):
    """A worker of weight 3 beside its planner of weight 1: of 1 + 3 turns of one token the planner's has a quarter."""
    one = next(t._replace(turns=t.turns[:1], rewards=(0.0,)) for t in matches if t.turns)
    worker = one._replace(match=9, root=one.match, root_game=one.game, policy="sub")
    config = RunConfig(games={"kuhn_poker": {}}, objective={"normalisation": "rollout_mean"})
    (batch,) = batches_of(config, [one, worker], [1], [1.0, 3.0])
    assert sum(batch.choice[0].weights) == pytest.approx(1 / 4)


def test_a_policys_critic_values_its_own_turns_alone(matches):
    """Both policies have critics, and only turns of roles whose rule needs values get any, each from its own."""
    config = RunConfig(games={"kuhn_poker": {}}, credit={"rules": {"kuhn_poker/first": "gae_turn"}})
    context = run_context(config, Path())
    policies = {name: new_policy(context, name, kuhn_pocket()) for name in ("main", "probe")}
    critics = {name: Critic(32, ("kuhn_poker/first",), config.critic, seed) for seed, name in enumerate(policies)}
    batch = [t._replace(policy="probe") if t.match % 2 else t for t in matches]
    for sign, (name, critic) in zip((1.0, -1.0), critics.items(), strict=True):
        policies[name].critic = critic
        own = [t for t in batch if t.role == "first"]
        critic.fit(policies[name].lm, own, [[sign] * len(t.turns) for t in own])
    evidence = gather_evidence(config, LearningState(policies), batch, [Evidence()] * len(batch))
    for t, facts in zip(batch, evidence, strict=True):
        if t.role != "first":
            assert facts.values is None
        else:
            assert all(value > 0 if t.policy == "main" else value < 0 for value in facts.values)


def test_the_gap_of_several_learners_is_the_largest():
    reports = [LearnerReport(0, {i: [0.5]}, {"gap": gap}) for i, gap in enumerate((0.1, 0.3, 0.2))]
    merged = merge_reports(reports, ["a", "b", "c"], 0)
    assert (merged.metrics, merged.advantages) == ({"gap": 0.3}, [[0.5]] * 3)


def test_learners_reports_keep_why_turns_are_left_out():
    """As they travel: JSON of one learner's trajectory 1, beside another's without a selection."""
    cells = json.loads(json.dumps({1: [[0.0], ["refused"], [2.0]]}))
    reports = [
        LearnerReport(0, {0: [0.5]}, {}),
        LearnerReport(0, {1: [2.0]}, {}, {int(index): cell for index, cell in cells.items()}),
    ]
    assert [None if s is None else s.reasons for s in merge_reports(reports, ["a", "b"], 0).selections] == [
        None,
        ["refused"],
    ]


def test_selection_changes_nothing_without_rules_and_hands_on_weights_beside_the_credits_own(matches):
    evidence, state = [Evidence()] * len(matches), LearningState({})
    rows = [[0.5] * len(t.turns) for t in matches]
    credited = Credited(rows, [0.0, *[2.0] * (len(matches) - 1)], {"rae": {"a": 1}})
    state.credit = credited.state
    config = RunConfig(games={"kuhn_poker": {}})
    assert select_turns(config, state, matches, evidence, credited) == (matches, evidence, credited)
    config = RunConfig(games={"kuhn_poker": {}}, selection={"rules": ["refused"]})
    learned = select_turns(config, state, matches, evidence, credited)
    assert (learned.credited.advantages, learned.credited.weights) == (rows, credited.weights)
    assert {w for facts in learned.evidence[1:] for w in facts.selection.weights} == {1.0}
    assert state.credit == {"rae": {"a": 1}}
