"""Odeen: hypotheses counted by hand and by another way of telling rules, bits, exact values, and what is read."""

import itertools
import math
from statistics import fmean

import pytest
from support.matches.talking import finished
from support.twins import brute_force, random_table

from games.common.errors import UsageError
from games.registry import make_game
from games.talk.odeen import COLOURS, SHAPES, read_experiment, universe
from league.theory.exact.exploitability import head_to_head, optimum

SMALL = "odeen(pieces=1,experiments=2,form=1)"
VALUES = (COLOURS[:2], SHAPES[:2])


@pytest.mark.parametrize(
    ("pieces", "colours", "shapes", "count"),
    [
        # A count of 0 to 3 is told apart by 8 rules: exactly 0, 1, 2, 3, at least 1, 2, at most 1, 2. Of two colours
        # one counts for both: colours, shapes and four pairs are 6 kinds. 16 pairs of neighbours agree with no count.
        (3, 2, 2, 6 * 8 + 16),
        # 0 to 2: 5 rules; two of one attribute side by side are exactly 2, so 4 of the 16 pairs are counts.
        (2, 2, 2, 6 * 5 + 12),
        # One piece is a red one or not, a cube or not, and one of the four or not.
        (1, 2, 2, 2 + 2 + 2 * 4),
        # Of three colours none stands for another: 3 + 3 + 9 kinds, and 6 of 36 pairs are counts.
        (2, 3, 3, 15 * 5 + 30),
    ],
)
def test_hypotheses_can_be_counted_by_hand(pieces, colours, shapes, count):
    all_there_is = universe(pieces, colours, shapes)
    assert len(all_there_is.hypotheses) == count
    assert len(all_there_is.structures) == (colours * shapes) ** pieces
    extents = {
        rule: frozenset(s for s, kept in all_there_is.keep.items() if rule in kept) for rule in all_there_is.hypotheses
    }
    assert len(set(extents.values())) == count, "no two agree on all structures"
    assert all(0 < len(extent) < len(all_there_is.structures) for extent in extents.values())


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("exactly 2 red", math.comb(3, 2) * 8),
        ("at least 2 red", (math.comb(3, 2) + 1) * 8),
        ("exactly 1 red cube", 3 * 3**2),
        ("at most 1 blue ball", 3**3 + 3 * 3**2),
        ("red right before blue", 4 * 8),  # of 8 rows of colours rbr, rbb, rrb, brb
        ("red right before red", 3 * 8),  # rrr, rrb, brr
    ],
)
def test_as_many_structures_keep_a_rule_as_binomials_say(rule, kept):
    known = universe(3, 2, 2)
    assert sum(known.rules[rule] in rules for rules in known.keep.values()) == kept


def test_a_colour_right_before_a_shape_looks_at_the_order():
    known = universe(3, 2, 2)
    for row in itertools.product(itertools.product(*VALUES), repeat=3):
        text = ", ".join(" ".join(piece) for piece in row)
        expected = any(row[i][0] == "red" and row[i + 1][1] == "ball" for i in range(2))
        assert (known.rules["red right before ball"] in known.keep[text]) == expected


def test_the_best_experiments_halve_and_nobody_needs_fewer_than_the_bits():
    """64 hypotheses are 6 bits, a lower bound for any scientist, which the greedy one nearly attains."""
    games = [finished("odeen", "good", seed) for seed in range(40)]
    assert all(game.possible() == (game._thing,) for game in games)
    assert all(game.information()[0] == pytest.approx(1.0, abs=0.01) for game in games)
    asked = fmean(len(game.information()) for game in games)
    assert 6.0 - 0.15 < asked < 6.6
    assert all(game.returns()[0] == pytest.approx(1 - len(game.information()) / 24) for game in games)
    poor = [finished("odeen", "poor", seed).returns()[0] for seed in range(500)]
    assert fmean(poor) == pytest.approx(1 / 64, abs=0.03)


def test_the_information_of_all_experiments_is_what_is_known():
    for seed in range(20):
        game = finished("odeen", "good", seed)
        left = [len(game._left(number)) for number in range(len(game._asked) + 1)]
        assert left[0] == 64
        assert left[-1] == 1
        bits = [
            -(k / n) * math.log2(k / n) - (1 - k / n) * math.log2(1 - k / n) for n, k in itertools.pairwise(left)
        ]  # the entropy is the same of the answer yes and of no
        assert game.information() == pytest.approx(tuple(bits))


def test_the_small_variant_has_the_value_of_going_through_it():
    """Of 12 rules two experiments tell 4 parts apart at most, one guess right in each: 4/12 − 2/4 < 1/12."""
    assert optimum(SMALL) == pytest.approx(1 / 12)
    table = random_table(SMALL, 7)
    assert head_to_head([table]) == pytest.approx(tuple(brute_force(make_game(SMALL).undealt(), table)))


def test_the_scientist_does_not_see_the_rule():
    game, seen = make_game("odeen"), set()
    kept = [rule for rule in game.things if rule in game._meanings["test red cube, red cube, red cube"]]
    for rule in kept:
        match = game.undealt()
        match.apply_chance(rule)
        match.apply("test red cube, red cube, red cube")
        seen.add((match.observe(0), match.information_state(0)))
        assert match.hidden(0) == f"The rule is: {rule}."
        assert match.possible() == tuple(kept)
    assert len(seen) == 1


def test_a_rule_that_agrees_is_as_good_as_the_one_that_was_drawn():
    match = make_game("odeen").undealt()
    match.apply_chance("exactly 3 red")
    match.apply(match.actions().read("The rule is: exactly 0 blue."))
    assert match.returns() == (1.0,)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Test red cube, blue ball, red ball", "test red cube, blue ball, red ball"),
        ("a red cube, then a blue ball, and a red ball!", "test red cube, blue ball, red ball"),
        ("The rule is: exactly 2 red.", "the rule is: exactly 2 red"),
        ("I think it is at least two blue cubes.", "the rule is: at least 2 blue cube"),
        ("exactly 3 blue", "the rule is: exactly 0 red"),
        ("at most 2 blue", "the rule is: at least 1 red"),
        ("red right before cube", "the rule is: red right before cube"),
        ("test red cube, blue ball", None),
        ("test red cube, blue ball, red", None),
        ("test red cube, blue ball, red ball, red ball", None),
        ("exactly 2 red or exactly 1 cube", None),
        ("at least 0 red", None),
        ("at most 3 red", None),
        ("exactly 7 red", None),
        ("not exactly 2 red", None),
        ("exactly 2 green", None),
        ("red", None),
        ("What is it?", None),
        ("red cube " * 40, None),
    ],
)
def test_what_is_said_is_read_or_refused(text, action):
    assert read_experiment(text, universe(3, 2, 2), VALUES, may_test=True) == action


def test_after_the_last_experiment_the_rule_is_to_be_said():
    known = universe(3, 2, 2)
    assert read_experiment("red cube, red cube, red cube", known, VALUES, may_test=False) is None
    game = make_game("odeen(experiments=1)")
    game.apply("test red cube, red cube, red cube")
    assert game.actions().read("test red cube, red cube, red cube") is None
    assert "There is no experiment left" in game.actions().why("test red cube")
    assert all(label.startswith("the rule is: ") for label in game.legal_actions())


def test_every_action_is_read_as_itself():
    for name in ("odeen", "odeen(pieces=2,colours=3,shapes=3)"):
        game = make_game(name)
        assert all(game.actions().read(label) == label for label in game.legal_actions())


def test_wrong_sizes_are_refused():
    with pytest.raises(UsageError, match="pieces is 1 to 3"):
        make_game("odeen(pieces=4)")
