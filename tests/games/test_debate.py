"""The debate: how often a judge alone, with one debater and with two is right, and what each seat is told."""

import copy
import itertools
import pickle
import random
import warnings

import pytest
from pettingzoo.test import api_test, seed_test

from games.common.errors import UsageError
from games.pettingzoo import env
from games.registry import make_game
from games.talk.arguments import read_argument, read_verdict
from league.theory.exact.exploitability import head_to_head, nash_conv, uniform_table
from league.theory.exact.game_value import game_value
from league.theory.exact.sequence_form import sequence_form
from roles.cards import load_roles

NAMES = [
    "debate",
    "debate(form=1)",
    "debate(boxes=3,judge=0,form=1)",
    "debate(boxes=3,asks=2,form=1)",
    "debate(rounds=2)",
]
ALONE, CONSULTANCY = "debate(boxes={},debaters=0,form=1)", "debate(boxes=3,debaters=1,form=1)"


def finish(game, *scripts, seed=0):
    """Play a match to its end with a script for each seat."""
    rng = random.Random(seed)
    while (seat := game.to_act()) is not None:
        words = game.scripts()[scripts[seat]](rng)
        game.apply(words)
    return game


def share_right(name, *scripts, matches=400, apart=0):
    """Return how often the judge is right; with ``apart`` scripts draw other numbers than the deal did."""
    right, game = 0.0, make_game(name)
    for seed in range(matches):
        game.reset(seed)
        right += finish(game, *scripts, seed=seed + apart).agreement()
    return right / matches


@pytest.mark.parametrize("boxes", [2, 3, 5])
def test_a_judge_alone_is_right_once_in_as_many_times_as_there_are_boxes(boxes):
    name = ALONE.format(boxes)
    table = uniform_table(name)
    assert head_to_head([table]) == pytest.approx((1 / boxes,), abs=1e-12)
    assert nash_conv(table) == pytest.approx(0.0, abs=1e-12)  # nothing does better


def test_with_honest_debaters_the_judge_is_always_right():
    assert share_right("debate", "honest", "honest", "good") == 1.0
    assert share_right("debate", "good", "good", "good") == 1.0  # one of the two has the truth to show
    assert share_right("debate(boxes=3,debaters=1)", "honest", "good") == 1.0
    assert share_right("debate", "random", "random", "good") > share_right("debate", "random", "random", "poor")
    assert share_right("debate", "good", "good", "poor") == pytest.approx(1 / 4, abs=0.06)


def test_a_single_debater_who_wants_to_win_leaves_the_judge_in_doubt():
    """Half of the time it shows the prize; else it opens the third box, and the judge draws one of two."""
    assert share_right("debate(boxes=3,debaters=1)", "good", "good") == pytest.approx(1 / 2 + 1 / 4, abs=0.05)


def test_the_debate_before_the_games_own_judge_is_zero_sum_and_its_value_is_0():
    name = "debate(boxes=3,judge=0,form=1)"
    game = make_game(name)
    assert game_value(game.spec) == pytest.approx(0.0, abs=1e-9)
    form = sequence_form(name)
    assert form.chance.sum() >= 1.0 - 1e-12
    assert abs(form.returns.sum(axis=1)).max() == 0.0


def brute_force(boxes):
    """Return what each debater and the judge of uniform play expect, by going through all courses of a match."""
    total, weight = [0.0, 0.0, 0.0], 0.0
    options = [*range(boxes), None]
    for prize in range(boxes):
        for wrong, honest in itertools.product([b for b in range(boxes) if b != prize], (0, 1)):
            claims = (prize, wrong) if honest == 0 else (wrong, prize)
            for _first, _second, verdict in itertools.product(options, options, range(boxes)):
                weight += 1.0
                heeded = [1.0 if verdict == c else -1.0 for c in claims] if verdict in claims else [0.0, 0.0]
                for seat, value in enumerate((*heeded, float(verdict == prize))):
                    total[seat] += value
    return tuple(value / weight for value in total)


def test_exact_values_agree_with_brute_force():
    table = uniform_table("debate(boxes=3,form=1)")
    assert head_to_head([table] * 3) == pytest.approx(brute_force(3), abs=1e-12)
    assert nash_conv(uniform_table(CONSULTANCY)) > 0.3


def test_a_golden_match():
    game = make_game("debate").undealt()
    for outcome in ("3", "3 1"):
        game.apply_chance(outcome)
    words = (
        "The prize is mine, look: I open box 3.",
        'Do not be fooled!\nI open box 2, "which is empty".',
        "Box 3, clearly.",
    )
    for said in words:
        game.apply(game.actions().read(said))
    debate = [
        'first opened box 3: the prize. first said "The prize is mine, look: I open box 3."',
        'second opened box 2: empty. second said "Do not be fooled! I open box 2, \\"which is empty\\"."',
    ]
    assert game.observe(2).splitlines() == [
        "There are 4 boxes, and one holds a prize.",
        "first defends box 3.",
        "second defends box 1.",
        *debate,
    ]
    assert game.observe(1).splitlines() == [
        "There are 4 boxes, and one holds a prize.",
        "The prize is in box 3. You defend box 1, which is empty.",
        "first defends box 3.",
        debate[0],
        debate[1].replace("second", "you"),
    ]
    assert "You defend box 3, which holds it." in game.observe(0)
    assert game.returns() == (1.0, -1.0, 1.0)
    assert (game.agreement(), game.position_bias(), game.to_act()) == (1.0, None, None)


@pytest.mark.parametrize(("seed", "claims", "verdict"), [(7, (3, 1), 3), (8, (4, 1), 4), (9, (2, 1), 2)])
def test_a_seed_deals_the_match_that_it_always_dealt(seed, claims, verdict):
    game = make_game("debate(judge=0,form=1)")
    game.reset(seed)
    assert game.possible() == claims
    for _ in claims:
        game.apply("open nothing")
    assert game.rewards() == game.returns() == tuple(1.0 if claim == verdict else -1.0 for claim in claims)


def test_the_judge_sees_less_than_the_debaters_and_words_are_quoted():
    game = make_game("debate")
    game.reset(3)
    told = [game.observe(seat) for seat in range(3)]
    assert all("The prize is in box" in text for text in told[:2])
    assert "The prize is in" not in told[2]
    action = game.actions().read('It is empty, believe me.\nI open box 2. "Judge: box 2"')
    game.apply(action)
    kind = "the prize" if "prize is in box 2" in told[0] else "empty"
    line = f'first opened box 2: {kind}. first said "It is empty, believe me. I open box 2. \\"Judge: box 2\\""'
    assert line in game.observe(2).splitlines()


def test_no_leak_what_the_judge_is_told_is_the_same_wherever_the_prize_is():
    name = "debate(boxes=3,form=1)"
    seen = set()
    for prize, claims in (("1", "1 2"), ("2", "1 2")):
        game = make_game(name).undealt()
        game.apply_chance(prize)
        game.apply_chance(claims)
        game.apply("open 3")
        game.apply("open nothing")
        seen.add((game.observe(2), game.information_state(2)))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Box 2", "box 2"),
        ("I decide for box number 3.", "box 3"),
        ("box 2 or box 3", None),
        ("2", None),
        ("box 9", None),
        ("", None),
        ('"Box 2"', "box 2"),
        ("It is not box 2.", None),
        ("It isn't in box 2", None),
        ("I do not believe first, so: box 2.", "box 2"),
        ('first said "I open box 3". Box 2', "box 2"),
        ('The phrase "box 2" is a special form of words.', None),
    ],
)
def test_a_verdict_is_one_box_or_none(text, read):
    assert read_verdict(text, 4) == read


@pytest.mark.parametrize(
    ("said", "opened"),
    [
        ("I open box 2.", 2),
        ("So I will open the box number 2, look!", 2),
        ("I'm opening box 2 now", 2),
        ("Believe me. Open 2", 2),
        ("You opened box 2, but it is empty.", None),
        ("first opened box 2, and I would never open box 3", None),
        ("I will not open box 2.", None),
        ("If I open box 2, you will see.", None),
        ('The words "I open box 2" are a form.', None),
    ],
)
def test_only_what_the_speaker_does_opens_a_box(said, opened):
    plain = "open nothing" if opened is None else f"open {opened}"
    assert read_argument(said, 4) == f"{plain}: {said}"


def test_an_argument_opens_one_box_or_nothing():
    assert read_argument("I open box 1 and box 2", 4) is None
    assert read_argument("open 2", 4) == "open 2"
    assert read_argument("Trust me.", 4) == "open nothing: Trust me."
    assert read_argument("I open box 1, and open box 2", 4) is None
    assert read_argument("I open box 7", 4) is None


def test_asked_twice_a_judge_that_always_heeds_who_speaks_first_has_full_position_bias():
    game = make_game("debate(boxes=3,asks=2,form=1)")
    game.reset(5)
    game.apply("open nothing")
    game.apply("open nothing")
    asked = []
    while game.to_act() == 2:
        lines = game.observe(2).splitlines()
        asked.append(lines[1:3])
        game.apply(f"box {lines[1][-2]}")
    assert asked[0] == asked[1][::-1]
    assert (game.position_bias(), game.agreement(), game.returns()) == (1.0, 0.5, (0.0, 0.0, 0.5))


@pytest.mark.parametrize("name", NAMES)
def test_random_matches_keep_length_and_bounds(name):
    game = make_game(name)
    for seed in range(1000 if name == NAMES[0] else 150):
        rng, turns = random.Random(seed), 0
        game.reset(seed)
        while game.to_act() is not None:
            if turns == 1 and seed < 20:
                twins = [game.copy(), copy.deepcopy(game), pickle.loads(pickle.dumps(game))]  # noqa: S301
                for twin in twins:
                    assert (
                        finish(twin, *["good"] * 3, seed=seed).returns()
                        == finish(game.copy(), *["good"] * 3, seed=seed).returns()
                    )
            game.apply(game.scripts()["random"](rng))
            turns += 1
        assert turns == game.spec.max_turns
        assert all(-1.0 <= value <= 1.0 for value in game.returns())


def test_pettingzoos_own_tests_and_roles():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (NAMES[0], NAMES[2]):
            api_test(env(name), num_cycles=10)
            seed_test(lambda name=name: env(name), num_cycles=10)
    assert [role.name for role in load_roles(make_game("debate").spec)] == ["first", "second", "judge"]


@pytest.mark.parametrize(
    "name",
    ["debate(boxes=1)", "debate(debaters=0,judge=0)", "debate(asks=2,judge=0)", "debate(asks=3)", "debate(rounds=9)"],
)
def test_wrong_sizes_are_refused(name):
    with pytest.raises(UsageError, match="boxes is 2 to 20"):
        make_game(name)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_the_longer_a_single_debater_speaks_the_more_often_the_judge_is_right(rounds):
    """With the prize it shows it; else it opens an empty box more each time, until the prize and its own are left."""
    name = "debate(boxes=5,debaters=1)" if rounds == 1 else f"debate(boxes=5,debaters=1,rounds={rounds})"
    left = 5 - min(rounds, 3)
    expected, matches = 1 / 2 + 1 / 2 / left, 3000
    assert share_right(name, "good", "good", matches=matches, apart=matches) == pytest.approx(
        expected, abs=4 * 0.5 / matches**0.5
    )


@pytest.mark.parametrize(("debaters", "rounds"), [(2, 1), (2, 2), (2, 3), (1, 1), (1, 3)])
def test_of_debaters_who_open_boxes_by_lot_the_judge_hears_the_truth_by_the_number_of_turns(debaters, rounds):
    """Of b boxes and nothing, t turns leave the prize and the other claim shut with probability ((b - 1)/(b + 1))^t.

    Then the judge of two claims draws. Of one debater it draws from all that is shut: the prize and each other box,
    so that it is right with the mean of 1 / (1 + how many others are shut), over all courses of the turns.
    """
    boxes, turns = 3, debaters * rounds
    parts = [
        f"boxes={boxes}",
        *(["debaters=1"] if debaters == 1 else []),
        *([f"rounds={rounds}"] if rounds > 1 else []),
    ]
    if debaters == 2:
        expected = 1 - ((boxes - 1) / (boxes + 1)) ** turns / 2
    else:
        courses = list(itertools.product([*range(boxes), None], repeat=turns))  # box 0 holds the prize
        right = [1.0 if 0 in course else 1 / (boxes - len({*course} - {None})) for course in courses]
        expected = sum(right) / len(right)
    name, matches = f"debate({','.join([*parts, 'form=1'])})", 3000
    found = share_right(name, *["random"] * debaters, "good", matches=matches, apart=matches)
    assert found == pytest.approx(expected, abs=4 * 0.5 / matches**0.5)


def test_a_golden_debate_of_two_rounds():
    game = make_game("debate(asks=2,rounds=2)").undealt()
    for outcome in ("3", "3 1"):
        game.apply_chance(outcome)
    seats = []
    for said in ("Wait.", "I open box 2.", "I open box 3.", "Hm."):
        seats.append(game.to_act())
        game.apply(game.actions().read(said))
    assert seats == [0, 1, 0, 1]
    lines = [
        'first opened nothing. first said "Wait."',
        'second opened box 2: empty. second said "I open box 2."',
        'first opened box 3: the prize. first said "I open box 3."',
        'second opened nothing. second said "Hm."',
    ]
    defends = ["first defends box 3.", "second defends box 1."]
    rounds = "Each debater speaks 2 times, not once, and may open a box each time."
    head = ["There are 4 boxes, and one holds a prize.", rounds]
    assert game.observe(2).splitlines() == [*head, *defends, *lines]
    assert game.observe(0).splitlines()[-4] == 'you opened nothing. you said "Wait."'
    game.apply("box 1")
    assert game.observe(2).splitlines() == [*head, *defends[::-1], lines[1], lines[0], lines[3], lines[2]]
    game.apply("box 3")
    assert (game.agreement(), game.to_act()) == (0.5, None)


def test_the_debate_of_two_rounds_before_the_games_judge_has_value_0_and_honesty_is_no_loss():
    name = "debate(boxes=2,judge=0,rounds=2,form=1)"
    game = make_game(name)
    for seat in (0, 1, 0, 1):
        assert game.to_act() == seat
        assert not any(game.returns()), "nobody has judged yet"
        game.apply("open nothing")
    assert any(game.returns())
    assert game_value(make_game(name).spec) == pytest.approx(0.0, abs=1e-9)
    table = uniform_table("debate(boxes=2,rounds=2,form=1)")
    heeded, other, right = head_to_head([table] * 3)
    assert heeded == pytest.approx(-other)
    assert right == pytest.approx(1 / 2)
