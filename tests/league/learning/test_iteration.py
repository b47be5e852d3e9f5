"""One iteration's learning: when updates are due, when the magnet follows, what pairs are made of, what is fitted."""

import itertools

import pytest
import torch
from support.learning.trees import tree
from support.matches.kuhn import CHOICE, SPEC, kuhn_pocket, self_play

from arena.records import TokenTrace
from league.config import RunConfig
from league.config.load import seat_roles
from league.learning import data_parallel
from league.learning.data_parallel import UpdateTask
from league.learning.iteration import update_policies
from league.learning.policies import new_policy
from league.learning.schedules import objective_at, steps_at
from league.storage.learner_checkpoint import LearningState
from learners.advantages.rule import Credited
from learners.batching import to_batch
from learners.trajectories import Evidence
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
    data_parallel._run_task(config, iteration_group(), policy, task, policy)


def iteration_group():
    from learners.parallel.process_group import SINGLE_PROCESS

    return SINGLE_PROCESS


@pytest.mark.parametrize("take", [updated_here, updated_with_followers])
def test_the_magnet_follows_every_so_many_updates_and_not_in_between(matches, take):
    objective = {"magnet": 0.1, "magnet_every": 3}
    config = RunConfig(games={"kuhn_poker": {}}, objective=objective, optimizer={"inner_steps": 1, "max_gap": 99.0})
    policy = new_policy(config, "main", kuhn_pocket(), {"kuhn_poker": seat_roles(config.roles, SPEC)})
    magnets, models = [weights(policy.magnet)], [weights(policy.lm)]
    for number in range(1, 7):
        take(config, policy, matches, number)
        magnets.append(weights(policy.magnet))
        models.append(weights(policy.lm))
    assert not any(torch.equal(before, after) for before, after in itertools.pairwise(models))
    for number, magnet in enumerate(magnets):
        assert torch.equal(magnet, models[number - number % 3]), f"the magnet after update {number}"


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
    taken = []

    def update(policy, rows, objective, steps):
        taken.append(rows)
        return {}

    policy = Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=False)
    state = LearningState({"main": policy})
    update_policies(config, state, batch, [Evidence()] * len(batch), credited(batch), 1, update)
    ((rows),) = [rows.choice for rows in taken]
    pairs = [(row.prompt[0], pair.chosen, pair.rejected) for row in rows for pair in row.pairs]
    assert sorted(pairs) == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (2, 0, 1)]
