"""What matches and pairs weigh in ``kto`` and ``dmpo``: alike, or by how much better they did."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning.trajectories import trajectory
from support.matches.kuhn import CHOICE, engine_with, kuhn_pocket, played, roles_for
from support.models.pocket import brief

from arena.records import MatchRequest
from games.common.seeds import derive_seed
from league.theory.exact.exploitability import exact_form
from learners.batching import pack
from learners.groups import root_game_of
from learners.losses.dmpo import Settings as DmpoSettings
from learners.losses.dmpo import paired
from learners.losses.kto import Settings as KtoSettings
from learners.losses.kto import _mismatches, kto_loss, labelled
from learners.losses.term import UpdateFacts
from learners.trajectories import to_trajectories

WEIGHT = {"kuhn_poker": 2.0}


@pytest.fixture(scope="module")
def trajectories():
    """Return matches of Kuhn poker of an untrained model with itself, eight of each of three deals, in chips."""
    roles = roles_for(**CHOICE)
    requests = [
        MatchRequest(i, "kuhn_poker", i % 3, derive_seed(5, i), ("main", "main"), (True, True)) for i in range(24)
    ]
    episodes = played(engine_with(main=brief(kuhn_pocket())), requests, 24, roles)
    return [t for t in to_trajectories(episodes, lambda _: roles, {"kuhn_poker": 1.0}) if t.turns]


def facts_of(trajectories, advantages):
    packed = pack("main", trajectories, advantages, WEIGHT)
    return UpdateFacts(packed, trajectories, (), advantages, [1.0] * len(trajectories), WEIGHT)


def slopes(trajectories, by_difference):
    """Return the slope of the loss of ``kto`` along each score where policy and reference are one; beta is 0.8."""
    advantages = [[t.match_return / len(t.turns)] * len(t.turns) for t in trajectories]
    settings = KtoSettings(dpo_beta=0.8, preference_weight="difference" if by_difference else "equal")
    scored = labelled(facts_of(trajectories, advantages), settings).scored
    scores = torch.zeros(len(scored), dtype=torch.float64, requires_grad=True)
    desirable = torch.tensor([one.desirable for one in scored])
    losses = kto_loss(scores, torch.zeros_like(scores), desirable, settings)
    weights = torch.tensor([one.weight for one in scored], dtype=torch.float64)
    return torch.autograd.grad((weights * losses).sum(), scores)[0].tolist()


def test_weighed_by_difference_kto_climbs_the_expected_return_and_else_the_share_of_wins(trajectories):
    """Sigmoid's slope at 0 is 1/4: beta / 4 times the loss weight, shared by the return or by its sign."""
    returns = [t.match_return for t in trajectories]
    assert {abs(one) for one in returns} == {1.0, 2.0}  # chips: a fold, or a showdown after a bet
    total = math.fsum(map(abs, returns))
    assert slopes(trajectories, by_difference=True) == pytest.approx([-0.8 / 4 * 2.0 * one / total for one in returns])
    signs = [math.copysign(1.0, one) for one in returns]
    assert slopes(trajectories, by_difference=False) == pytest.approx([-0.8 / 4 * 2.0 * s / len(signs) for s in signs])


def test_weighed_by_difference_pairs_count_as_their_returns_differ(trajectories):
    """Written out: every two of one deal and seat that did not say the same to the same."""

    def said(t):
        return [(turn.observation, turn.reply) for turn in t.turns]

    pairs = [
        (better.match_return - worse.match_return)
        for better in trajectories
        for worse in trajectories
        if (better.deal_seed, better.seat) == (worse.deal_seed, worse.seat)
        if better.match_return > worse.match_return and said(better) != said(worse)
    ]
    assert len(set(pairs)) > 1
    facts = facts_of(trajectories, [[1.0] * len(t.turns) for t in trajectories])
    differing = paired(facts, DmpoSettings(preference_weight="difference"))
    assert sorted(p.weight for p in differing.pairs) == pytest.approx(sorted(2.0 * d / sum(pairs) for d in pairs))
    alike = paired(facts, DmpoSettings())
    assert [pair.weight for pair in alike.pairs] == pytest.approx([2.0 / len(pairs)] * len(pairs))
    assert [pair[:2] for pair in differing.pairs] == [pair[:2] for pair in alike.pairs]


@pytest.mark.parametrize("by", ["equal", "difference"])
@pytest.mark.parametrize(("rows", "made"), [("kto", KtoSettings), ("dmpo", DmpoSettings)])
def test_each_game_has_its_own_loss_weight_however_many_matches_it_has(trajectories, rows, made, by):
    """One deal of three is said to be of another game, and one of a submatch whose rollout began in that game."""
    games = [{}, {"game": "leduc_poker"}, {"root_game": "leduc_poker", "root": 99}]
    mixed = [t._replace(**games[t.deal_seed]) for t in trajectories]
    advantages = [[t.match_return / len(t.turns)] * len(t.turns) for t in mixed]
    weights = {"kuhn_poker": 2.0, "leduc_poker": 0.5}
    packed = pack("main", mixed, advantages, weights)
    facts = UpdateFacts(packed, mixed, (), advantages, [1.0] * len(mixed), weights)
    whole = (labelled if rows == "kto" else paired)(facts, made(preference_weight=by))
    if rows == "kto":
        games_of, found = [root_game_of(t) for t in mixed], [one.weight for one in whole.scored]
    else:  # the scored ones are those in some pair, in order
        places = {tuple(packed.places[i]): root_game_of(t) for i, t in enumerate(mixed)}
        games_of = [places[whole.scored[pair[0]].turns] for pair in whole.pairs]
        found = [pair.weight for pair in whole.pairs]
    for game, weight in weights.items():
        mine = [one for of, one in zip(games_of, found, strict=True) if of == game]
        assert math.fsum(mine) == pytest.approx(weight)
        assert by == "difference" or len({round(one, 12) for one in mine}) == 1


@given(st.lists(st.tuples(st.sampled_from(["kuhn_poker", "go"]), st.sampled_from("abc")), max_size=12), st.randoms())
def test_a_mismatched_reply_is_another_trajectorys_of_the_same_game_and_role(roles, rng):
    """Each lends its replies once, half of its role's further on, whatever trajectories lie between."""
    made = [trajectory([1.0], game=game, role=role) for game, role in roles]
    used = sorted(rng.sample(range(len(made)), rng.randint(0, len(made))))
    found = _mismatches(made, used)
    assert sorted(found) == sorted(found.values()) == used
    for index, other in found.items():
        mine = [i for i in used if roles[i] == roles[index]]
        assert roles[other] == roles[index]
        assert (mine.index(other) - mine.index(index)) % len(mine) == max(1, len(mine) // 2) % len(mine)


def test_to_bet_always_is_an_equilibrium_of_kuhn_poker_where_only_the_sign_of_what_is_won_counts():
    """It is why ``kto``, weighed alike, learned it. In chips a best response to it gains 1/3: it folds the jack."""
    chips = exact_form("kuhn_poker")
    signs = replace(chips, returns=np.sign(chips.returns))
    always = [(0.0, 1.0)] * len(chips.keys)
    assert signs.best_responses(always) == pytest.approx(signs.values(always))
    gains = [best - value for best, value in zip(chips.best_responses(always), chips.values(always), strict=True)]
    assert gains == pytest.approx([1 / 3, 1 / 3])
