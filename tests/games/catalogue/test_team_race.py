"""The race of two teams: who is right first wins, neither sees the other, and teams are kept together."""

import random
from statistics import fmean

import pytest
from support.twins import brute_force, random_table

from games.common.errors import UsageError
from games.registry import make_game
from league.population.evaluation.head_to_head import compare, seatings
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import head_to_head

SMALL = "team_race(cells=2,terms=1,most=1,together=1,rounds=2)"


def dealt(name, numbers, question):
    game = make_game(name).undealt()
    for number in numbers:
        game.apply_chance(str(number))
    game.apply_chance(question)
    return game


def played(game, *actions):
    for action in actions:
        game.apply(action)
    return game


def race(*actions):
    return played(dealt("team_race(cells=3,terms=2)", (4, 5, 9), "A + C"), *actions)


def test_who_is_right_in_an_earlier_round_wins():
    game = race("ask A + C", "13", "ask A", "4", "answer 13", "ask C", "9")
    assert game.returns() == (1.0, 1.0, -1.0, -1.0)
    assert game.to_act() is None
    assert "Your team gave no answer; the other was right in round 2." in game.observe(2)


def test_both_right_in_one_round_is_a_draw_and_wrong_is_out():
    assert race("answer 13", "answer 13").returns() == (0.0,) * 4
    game = race("answer 12", "ask A + C", "13")
    assert game.to_act() == 2
    assert "The other team answered wrong and is out." in game.observe(2)
    assert game.apply("answer 13") is None
    assert game.returns() == (-1.0, -1.0, 1.0, 1.0)
    assert race("answer 12", "answer 11").returns() == (0.0,) * 4


def test_rounds_run_out():
    game = race(*("ask A", "4", "ask A", "4") * 6)
    assert game.to_act() is None
    assert game.returns() == (0.0,) * 4


def test_a_team_sees_nothing_of_the_other_in_a_round_and_nothing_of_what_it_asked():
    games = [race("ask A", "4"), race("answer 0"), race("ask C", "1")]
    assert len({(game.observe(2), game.information_state(2), game.observe(3)) for game in games}) == 1
    assert "Question" not in games[0].observe(1)
    assert not any(f"= {number}" in games[1].observe(2) for number in (4, 5, 9))


def test_no_planner_sees_a_number_that_it_was_not_told():
    seen = set()
    for numbers in ((0, 0), (0, 1), (1, 0), (1, 1)):
        game = dealt(SMALL, numbers, "B")
        seen.add((game.observe(0), game.information_state(0)))
    assert len(seen) == 1


def mean_returns(first, second, seeds=60):
    """Return the mean return of the first team."""
    total = []
    for seed in range(seeds):
        game = make_game("team_race")
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            game.apply(game.scripts()[(first, second)[seat // 2]](random.Random(seed)))
        total.append(game.returns()[0])
    return fmean(total)


def test_good_teams_are_equal_and_always_beat_poor_ones():
    assert mean_returns("good", "good") == 0.0
    assert mean_returns("good", "poor") == 1.0
    assert mean_returns("poor", "good") == -1.0


def test_a_team_is_as_good_as_its_planner_and_its_worker():
    game = make_game("team_race")
    game.reset(4)
    while (seat := game.to_act()) is not None:
        game.apply(game.scripts()["poor" if seat == 1 else "good"](random.Random(0)))
    assert game.returns() == (-1.0, -1.0, 1.0, 1.0)


def test_values_are_those_of_brute_force_and_add_up_to_nothing():
    table = random_table(SMALL, 6)
    values = head_to_head([table] * 4)
    assert values == pytest.approx(tuple(brute_force(make_game(SMALL).undealt(), table)))
    assert sum(values) == pytest.approx(0.0)
    assert values[0] == values[1]


def test_in_an_evaluation_a_team_is_one_players():
    spec, engines = make_game("team_race").spec, Engines()
    assert seatings(spec) == [(0, 0, 1, 1), (1, 1, 0, 0)]
    result = compare((resolve("scripted:good", spec, engines), resolve("scripted:poor", spec, engines)), 8, seed=0)
    assert result.returns[0].mean == 1.0
    assert result.score.mean == 1.0


def test_wrong_sizes_are_refused():
    with pytest.raises(UsageError, match="cells is 1 to 8"):
        make_game("team_race(cells=9)")
