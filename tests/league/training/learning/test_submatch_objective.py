"""Submatches train by the settings of the game that opened them: its entropy weight and its loss weight."""

import math

import pytest
import torch
from support.models.pocket import pocket

from arena.records import MatchRequest
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.registry import make_game
from league.config import RunConfig
from league.population.evaluation.teams import live_cast
from league.training.checkpoints.learner_checkpoint import LearningState
from league.training.learning.iteration import update_policies
from learners.advantages.rule import Credited
from learners.trajectories import Evidence, to_trajectories
from learners.update.policy import Policy
from roles.cards import load_roles

CHAIN, LOOKUP = "lookup_chain(people=6,relations=2)", "lookup(people=6,relations=2)"
ENTROPY, LOSS_WEIGHT = 0.06, 2.5


@pytest.fixture(scope="module")
def lm():
    return pocket(sharpness=1.0)


@pytest.fixture(scope="module")
def trajectories(lm):
    """Return matches of the chain, and of the lookups that they opened."""
    engine, roles = TorchLM(), {name: tuple(load_roles(make_game(name).spec)) for name in (CHAIN, LOOKUP)}
    engine.add("main", lm)
    cast = live_cast(make_game(CHAIN).spec, roles, ["main"])
    requests = [MatchRequest(i, CHAIN, i, i, ("main",), (True,), cast=cast) for i in range(24)]
    episodes = play(requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game, in_flight=24)
    return to_trajectories(episodes, roles.__getitem__, {CHAIN: 1.0, LOOKUP: 1.0})


def exact_entropy(lm, turn):
    tries = [lm.trie(turn.legal)]
    (chunk,) = lm.plan_choice([turn.trace.prompt_ids], tries, 8192)
    with torch.no_grad():
        logprobs = lm.choice_logprobs(chunk, tries, turn.trace.temperature).replies[0].tolist()
    return -math.fsum(math.exp(p) * p for p in logprobs)


@pytest.mark.parametrize("games", [(CHAIN,), (LOOKUP,), (CHAIN, LOOKUP)], ids=["opener", "opened", "both"])
def test_with_zero_advantages_a_loss_is_the_openers_entropy_bonus(lm, trajectories, games):
    """Each game's loss is -2.5 * 0.06 times the mean entropy of its replies: the opened game's as the opener's."""
    mine = [t for t in trajectories if t.game in games]
    assert {t.game for t in mine} == set(games)
    table = {"entropy": ENTROPY, "loss_weight": LOSS_WEIGHT}
    optimizer = {"inner_steps": 1, "learning_rate": 0.0}
    config = RunConfig(games={CHAIN: table}, optimizer=optimizer, objective={"entropy": 0.5})
    policy = Policy("main", lm, weight_decay=0.0, magnet=False)
    credited = Credited([[0.0] * len(t.turns) for t in mine], [1.0] * len(mine), {})
    state = LearningState({"main": policy})
    metrics = update_policies(config, state, mine, [Evidence()] * len(mine), credited, 1)
    means = []
    for game in games:
        entropies = [exact_entropy(lm, turn) for t in mine if t.game == game for turn in t.turns]
        means.append(math.fsum(entropies) / len(entropies))
    assert metrics["main/loss"] == pytest.approx(-LOSS_WEIGHT * ENTROPY * math.fsum(means), rel=1e-4)
    assert metrics["main/loss"] < -0.01
