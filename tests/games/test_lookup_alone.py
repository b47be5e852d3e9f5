"""lookup_alone: the planner's questions, for one player who searches himself."""

import random

import pytest

from games.registry import make_game
from roles.cards import load_roles


def played(name, script, seed):
    """Return the return and the searches of one match."""
    game = make_game(name)
    game.reset(seed)
    searches = 0
    while game.to_act() is not None:
        action = game.scripts()[script](random.Random(0))
        if action in game.legal_calls():
            game.record_call(action, game.tools()["search"](action[8:-2]))
            searches += 1
        else:
            game.apply(action)
    return game.returns()[0], searches


@pytest.mark.parametrize("hops", [1, 2, 4, 6])
def test_the_optimal_script_is_always_right_and_the_poor_one_rarely(hops):
    name = "lookup_alone" if hops == 2 else f"lookup_alone(hops={hops})"
    best, poor = ([played(name, script, seed) for seed in range(150)] for script in ("optimal", "poor"))
    assert {total for total, _ in best} == {1.0}
    assert max(searches for _, searches in best) <= hops
    assert sum(total for total, _ in poor) / len(poor) < 0.5


@pytest.mark.parametrize("seed", range(20))
def test_the_question_and_the_notes_are_those_of_a_planner(seed):
    alone, planner = make_game("lookup_alone(hops=4)"), make_game("lookup_chain(hops=4)")
    alone.reset(seed)
    planner.reset(seed)
    assert alone.observe(0) == planner.observe(0)
    assert [a for a in planner.legal_actions() if a.startswith("answer")] == list(alone.legal_actions())


def test_search_results_are_observed_in_full_and_no_search_is_offered_twice():
    game = make_game("lookup_alone")
    game.reset(3)
    (call,) = game.legal_calls()
    sentences = game.tools()["search"](call[8:-2])
    copied = game.copy()
    game.record_call(call, sentences)
    assert game.observe(0) == f"{sentences}\n{copied.observe(0)}"
    assert call not in game.legal_calls()
    assert copied.legal_calls() == (call,)
    assert {a.removeprefix("answer ") for a in game.legal_actions()} > {"Dot"}


def test_its_card_allows_as_many_searches_as_a_planner_may_ask():
    (role,) = load_roles(make_game("lookup_alone").spec)
    assert [(tool.name, tool.per_match) for tool in role.tools] == [("search", 6)]
