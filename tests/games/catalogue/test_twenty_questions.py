"""Twenty questions: bits by hand, the optimum by going through the game, and questions that are read or refused."""

import math
import random
from statistics import fmean

import pytest
from support.matches.talking import finished
from support.twins import brute_force, random_table

from arena.records import MatchRequest
from arena.samplers.scripted import Script
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from games.talk.twenty_questions import COLOURS, KINDS, entropy, read_question
from league.population.evaluation.teams import question_metrics
from league.theory.exact.exploitability import head_to_head, optimum
from roles.cards import load_roles

SMALL = "twenty_questions(colours=2,kinds=2,questions=2,form=1)"
VALUES = (COLOURS[:4], KINDS[:4])


def test_a_question_tells_the_entropy_of_its_answer():
    assert entropy(8, 16) == 1.0
    assert entropy(4, 16) == pytest.approx(0.25 * 2 + 0.75 * math.log2(4 / 3))
    assert entropy(0, 16) == entropy(16, 16) == entropy(0, 0) == 0.0
    game = make_game("twenty_questions")
    game.reset(1)
    for question in ("is it red?", "is it red?", "is it cat or dog?"):
        game.apply(question)
    quarter = 0.25 * 2 + 0.75 * math.log2(4 / 3)
    assert game.information() == pytest.approx((quarter, 0.0, 1.0))


def test_halving_needs_log2_of_the_things_and_no_asker_tells_more_than_that():
    for seed in range(16):
        game = finished("twenty_questions", "good", seed)
        assert game.information() == (1.0,) * 4
        assert sum(game.information()) == math.log2(len(game.things))
        assert game.returns()[0] == game.spec.optimum == pytest.approx(1 - 4 / 40)


def test_of_an_uneven_number_halving_is_right_and_stays_within_the_bound():
    """18 things: 4.17 bits."""
    games = [finished("twenty_questions(colours=6,kinds=3)", "good", seed) for seed in range(60)]
    assert all(len(game.possible()) == 1 for game in games)
    asked = fmean(len(game.information()) for game in games)
    assert math.log2(18) - 0.2 < asked < math.log2(18) + 1


def test_the_optimum_of_the_small_variant_is_that_of_going_through_it():
    assert make_game(SMALL).spec.optimum == 1 - 2 / 4 == optimum(SMALL)
    table = random_table(SMALL, 7)
    assert head_to_head([table]) == pytest.approx(tuple(brute_force(make_game(SMALL).undealt(), table)))


def test_good_ones_need_no_luck_and_poor_ones_need_it():
    assert {finished("twenty_questions(answerer=1)", "good", seed).returns() for seed in range(10)} == {(0.9, 0.9)}
    poor = fmean(finished("twenty_questions", "poor", seed).returns()[0] for seed in range(800))
    assert poor == pytest.approx(1 / 16, abs=0.03)


def test_an_answerer_may_be_wrong_and_the_asker_then_is():
    game = make_game("twenty_questions(colours=2,kinds=2,questions=2,answerer=1)")
    game.reset(0)
    while (seat := game.to_act()) is not None:
        game.apply(game.scripts()["good" if seat == 0 else "poor"](random.Random(0)))
    assert game.possible() == (game._named,)
    assert game._answers == ("yes", "yes")


def test_the_asker_does_not_see_the_thing_and_the_answerer_does():
    game = make_game("twenty_questions(answerer=1)")
    seen = set()
    for thing in game.things:
        match = game.undealt()
        match.apply_chance(thing)
        match.apply("is it red or blue?")
        seen.add((match.observe(0), match.information_state(0)))
        assert f"It is the {thing}." in match.observe(1)
        assert match.legal_actions() == ("yes", "no")
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Is it red or blue?", "is it red or blue?"),
        ("Blue, or red?", "is it red or blue?"),
        ("Does it belong to the cats?", "is it cat?"),
        ("It is the red cat!", "it is the red cat"),
        ("Is it a red cat?", "it is the red cat"),
        ("Is it not red?", None),
        ("Is it red or a cat or a dog?", None),
        ("Is it red, blue, green or white?", None),
        ("Is it black?", None),
        ("What is it?", None),
        ("red " * 40, None),
    ],
)
def test_questions_are_read_or_refused(text, action):
    assert read_question(text, VALUES, may_ask=True) == action


def test_after_the_last_question_a_thing_is_to_be_named():
    assert read_question("Is it red?", VALUES, may_ask=False) is None
    assert read_question("the red cat", VALUES, may_ask=False) == "it is the red cat"
    game = make_game(SMALL)
    for _ in range(2):
        game.apply("is it red?")
    assert all(label.startswith("it is the") for label in game.legal_actions())


def test_wrong_sizes_are_refused():
    with pytest.raises(UsageError, match="colours and kinds are 2 to 6"):
        make_game("twenty_questions(colours=7)")


def test_training_shows_the_mean_of_the_bits():
    name = "twenty_questions"
    roles = load_roles(make_game(name).spec)
    requests = [MatchRequest(index, name, index, index, ("good",), (False,)) for index in range(4)]
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: Script("good"), make_game=make_game)
    assert question_metrics(name, episodes) == {f"{name}/bits_per_question": 1.0}
    assert question_metrics("kuhn_poker", []) == question_metrics(name, []) == {}
