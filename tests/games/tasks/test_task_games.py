"""Games of tasks: what scripts earn, what tasks as text give, and what is not a task."""

import random
from collections import Counter

import pytest

from arena.records import MatchRequest, Start
from arena.samplers.scripted import Script
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from roles.cards import load_roles


def finished(name, script, seed=0, task=""):
    game, rng = make_game(name), random.Random(seed)
    game.reset(seed)
    if task:
        game.start_task(task)
    while game.to_act() is not None:
        game.apply(game.scripts()[script](rng))
    return game


NAMES = ["sums", "sums(digits=1)", "sums(digits=6,base=3)", "programs", "programs(size=3,tests=3,form=1)"]


@pytest.mark.parametrize("name", NAMES)
def test_the_optimal_script_solves_every_task_and_poor_ones_nearly_none(name):
    assert {finished(name, "optimal", seed).returns() for seed in range(25)} == {(1.0,)}
    assert sum(finished(name, "poor", seed).returns()[0] for seed in range(25)) <= 4


def test_adding_without_carrying_is_right_where_nothing_is_carried():
    """Of two digits, 55 of 100 pairs carry nothing; a sum of n columns has none with the chance 0.55 ** n."""
    games = [finished("sums(digits=3)", "no_carry", seed) for seed in range(1500)]
    for size in (1, 2, 3):
        solved = [game.returns()[0] for game in games if game.task_size() == size]
        assert sum(solved) / len(solved) == pytest.approx(0.55**size, abs=0.08)


def test_a_sum_as_text_is_what_is_added():
    for task, digits in [("47 + 38", "580"), ("999 + 001", "0001"), ("0 + 0", "00"), ("5 + 9", "41")]:
        game = make_game("sums")
        game.start_task(task)
        assert game.task() == task
        assert (len(digits) - 1) == game.task_size()
        for digit in digits:
            assert game.returns() == (0.0,)
            game.apply(digit)
        assert game.to_act() is None
        assert game.returns() == (1.0,)


def test_what_a_seat_of_sums_reads():
    game = make_game("sums")
    game.start_task("47 + 38")
    assert game.observe(0) == "2 digits\n7 + 8 = ?"
    game.apply("5")
    assert game.observe(0) == "2 digits\n7 + 8 = 5\n4 + 3 = ?"
    game.apply("8")
    assert game.observe(0) == "2 digits\n7 + 8 = 5\n4 + 3 = 8\n0 + 0 = ?"


@pytest.mark.parametrize(
    "task", ["", "4 + ", "47 + 3", "12345 + 12345", "4 - 3", "٤ + ٣", "4 + 3; 5", " 4 + 3", "-4 + 3"]
)
def test_what_is_no_sum_is_refused(task):
    with pytest.raises(ValueError, match="it is not NUMBER"):
        make_game("sums").start_task(task)


def test_a_digit_that_a_base_has_not_is_refused():
    with pytest.raises(ValueError, match="base 3"):
        make_game("sums(base=3)").start_task("13 + 21")


def test_sizes_are_drawn_alike():
    sizes = Counter()
    for seed in range(800):
        game = make_game("sums")
        game.reset(seed)
        sizes[game.task_size()] += 1
    assert sizes.keys() == {1, 2, 3, 4}
    assert min(sizes.values()) > 150


@pytest.mark.parametrize("name", ["sums(digits=0)", "sums(base=11)", "programs(size=1)", "programs(form=2)"])
def test_sizes_that_no_game_has_are_refused(name):
    with pytest.raises(UsageError, match="There is no game"):
        make_game(name)


def test_a_match_from_a_stored_task_repeats_bit_for_bit():
    spec = make_game("sums").spec
    roles, engine = load_roles(spec), Script("optimal")
    start = Start("sums", 0, task="47 + 38", prefix=("5",))
    request = MatchRequest(0, "sums", 9, 9, ("a",), (True,)).from_start(start)
    first, second = (
        play([request], roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game) for _ in range(2)
    )
    assert first == second
    assert [turn.action for turn in first[0].turns] == ["8", "0"]
    assert first[0].returns == (1.0,)


def test_a_start_whose_task_is_refused_says_why():
    spec = make_game("sums").spec
    request = MatchRequest(0, "sums", 9, 9, ("a",), (True,)).from_start(Start("sums", 0, task="4 + x"))
    with pytest.raises(UsageError, match="cannot begin with '4 \\+ x': it is not NUMBER"):
        play([request], roles_of=lambda _: load_roles(spec), engine_of=lambda _: Script("optimal"), make_game=make_game)
