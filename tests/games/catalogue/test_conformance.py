"""What holds of every game of this project: what ``league check`` looks at, refusals in a sentence, cards."""

import re

import pytest

from games.conformance import check_game, faults
from games.registry import NATIVE, RENDERED, WRAPPERS, make_game
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
    "odeen(pieces=1,experiments=2,form=1)",
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
    "odeen",
    "odeen(form=1)",
    "team_race",
    *SMALL,
)


AROUND = (
    "retried(sums)",
    "retried(kuhn_poker,attempts=2,pays=2)",
    "repeated(simple_negotiation,rounds=2)",
    "repeated(kuhn_poker)",
    "advised(kuhn_poker,seat=2,form=1)",
    "advised(sums)",
)
INSIDE = {"forewarned": "nim(pile_sizes=1;2)"}  # of wrappers that kuhn_poker does not suit: its state is its moves
WRAPPED = (*(f"{title}({INSIDE.get(title, 'kuhn_poker')})" for title in WRAPPERS), *AROUND)
OURS = tuple(dict.fromkeys((*GAMES, *NATIVE, *RENDERED, *WRAPPED)))
SLOW = ("public_goods(seats=16,rounds=2,recall=1)", "team_race")  # whose positions take long to look at


@pytest.mark.parametrize("name", OURS)
def test_a_game_keeps_every_promise_that_league_check_looks_at(name):
    assert faults(lambda: make_game(name), seeds=range(1 if name in SLOW else 4)) == []


@pytest.mark.parametrize("name", SMALL)
def test_the_whole_tree_of_a_small_game_is_walked(name):
    [tree] = [result for result in check_game(lambda: make_game(name), range(1)) if result.name == "tree"]
    assert re.fullmatch(r"all \d+ positions", tree.sentence)


@pytest.mark.parametrize("name", GAMES)
def test_what_is_not_legal_is_refused_in_a_sentence(name):
    game = make_game(name)
    with pytest.raises(ValueError, match=r"is not legal here; legal: "):
        game.apply("\n")


@pytest.mark.parametrize("name", GAMES)
def test_cards_tell_the_rules(name):
    roles = load_roles(make_game(name).spec)
    assert len({role.name for role in roles}) == len(roles)
    assert all(len(role.system) > 200 for role in roles)
    assert all("You are the first of" not in role.system for role in roles)
