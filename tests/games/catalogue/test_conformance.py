"""What holds of every game of the catalogue: PettingZoo's own tests, bounds, copies, and what seats are told."""

import copy
import pickle
import random
import warnings
from collections import defaultdict

import pytest
from pettingzoo.test import api_test, seed_test

from games.enumerated import native_root
from games.pettingzoo import env
from games.registry import make_game
from games.spec import Choices
from roles.cards import load_roles

SMALL = (  # of each game a variant that is enumerated
    "public_goods(seats=2,rounds=2,tokens=1,multiplier=150,talk=0)",
    "public_goods(seats=2,rounds=1,tokens=1,multiplier=150,talk=2)",
    "repeated_kuhn_poker(hands=2)",
    "signalling(rounds=1,form=1)",
    "signalling(states=2,words=2,rounds=2,form=1)",
    "reference(things=2,attributes=1,values=2,words=2,length=1,form=1)",
    "twenty_questions(colours=2,kinds=2,questions=2,form=1)",
    "twenty_questions(colours=2,kinds=2,questions=1,answerer=1,form=1)",
    "team_race(cells=2,terms=1,most=1,together=1,rounds=2)",
)
GAMES = (
    "public_goods",
    "public_goods(talk=0)",
    "public_goods(seats=16,rounds=2,recall=1)",
    "repeated_kuhn_poker",
    "signalling",
    "signalling(states=8,words=2,form=1)",
    "reference",
    "reference(things=9,attributes=3,form=1)",
    "twenty_questions",
    "twenty_questions(answerer=1)",
    "twenty_questions(colours=6,kinds=3,form=1)",
    "team_race",
    *SMALL,
)


@pytest.mark.parametrize("name", GAMES)
def test_pettingzoos_own_tests(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(env(name), num_cycles=10)
        seed_test(lambda: env(name), num_cycles=10)


@pytest.mark.parametrize("name", GAMES)
def test_random_matches_keep_their_bounds_and_copies_are_the_same_match(name):
    game = make_game(name)
    for seed in range(30):
        rng = random.Random(seed)
        game.reset(seed)
        turns, totals, twins, said = 0, [0.0] * game.spec.seats, [], []
        while (seat := game.to_act()) is not None:
            asked = game.actions()
            if turns == 1:
                twins = [game.copy(), copy.deepcopy(game), pickle.loads(pickle.dumps(game))]  # noqa: S301
            action = game.scripts()["random"](rng)
            if isinstance(asked, Choices):
                assert action in asked.labels
                assert len(set(asked.labels)) == len(set(asked.ids)) == len(asked.labels)
                assert game.spec.free_text or set(asked.ids) <= set(range(game.spec.num_actions))
            else:
                assert asked.read(action) == action
            assert 0 <= seat < game.spec.seats
            game.apply(action)
            said.append(action)
            totals = [total + reward for total, reward in zip(totals, game.rewards(), strict=True)]
            turns += 1
        assert turns <= game.spec.max_turns
        assert totals == pytest.approx(game.returns())
        assert all(game.spec.min_return - 1e-9 <= value <= game.spec.max_return + 1e-9 for value in game.returns())
        assert game.actions() == ((), ())
        if game.spec.utility == "zero_sum":
            assert sum(game.returns()) == pytest.approx(0.0)
        if game.spec.utility == "identical":
            assert len(set(game.returns())) == 1
        for twin in twins:
            for action in said[1:]:
                twin.apply(action)
            assert twin.returns() == game.returns()
            assert [twin.observe(seat) for seat in range(game.spec.seats)] == [
                game.observe(seat) for seat in range(game.spec.seats)
            ]


@pytest.mark.parametrize("name", GAMES)
def test_what_is_not_legal_is_refused_in_a_sentence(name):
    game = make_game(name)
    with pytest.raises(ValueError, match=r"is not legal here; legal: "):
        game.apply("\n")


@pytest.mark.parametrize("name", SMALL)
def test_seats_are_told_the_same_where_they_know_the_same_and_recall_all_that_they_did(name):
    """Over the whole tree: an information state has one text and one list of actions, and one history of the seat's."""
    told, pasts = defaultdict(set), defaultdict(set)
    stack = [(native_root(name), ())]
    while stack:
        state, past = stack.pop()
        if state.is_terminal():
            continue
        if state.is_chance_node():
            assert sum(p for _, p in state.chance_outcomes()) == pytest.approx(1.0)
            stack += [(state.child(action), past) for action in state.legal_actions()]
            continue
        seat = state.current_player()
        key = (seat, state.information_state_string(seat))
        told[key].add((state.match.observe(seat), state.match.legal_actions(), state.match.legal_ids()))
        pasts[key].add(tuple(move for move in past if move[0] == seat))
        stack += [(state.child(action), (*past, (seat, key[1], action))) for action in state.legal_actions()]
    assert {len(texts) for texts in told.values()} == {1}
    assert {len(moves) for moves in pasts.values()} == {1}


@pytest.mark.parametrize("name", GAMES)
def test_cards_tell_the_rules(name):
    roles = load_roles(make_game(name).spec)
    assert len({role.name for role in roles}) == len(roles)
    assert all(len(role.system) > 200 for role in roles)
    assert all("You are the first of" not in role.system for role in roles)
