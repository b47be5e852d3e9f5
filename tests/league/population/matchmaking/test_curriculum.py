"""Games are let through that are neither trivial nor impossible: worked numbers, and players whose scores are known."""

import random

import pytest

from arena.records import MatchRequest
from arena.scheduler import play
from games.registry import make_game
from league.config import RunConfig
from league.config.load import seat_roles
from league.config.matchmaking import CurriculumConfig
from league.config.run import RolesConfig
from league.population.matchmaking.curriculum import Fitness, Judgement, active_games, judge, matches_by_game
from league.population.players.scripted import scripted_player

SETTINGS = CurriculumConfig(matches=1, better=0.1)
DEALS = 600


def scores(player, game):
    """Return the scores of a scripted player in a game of one seat, whose returns are 0 or 1."""
    spec, engine = make_game(game).spec, scripted_player(player)
    requests = [MatchRequest(deal, game, deal, 10_000 + deal, (player,), (False,)) for deal in range(DEALS)]
    roles = seat_roles(RolesConfig(), spec)
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
    return [episode.returns[0] for episode in episodes]


def test_the_figures_of_a_judgement_by_hand():
    """Of the scores one of four is above 0.9; two are better than the control's, one by no more than 0.2."""
    settings = CurriculumConfig(matches=4, high=0.9, margin=0.2, better=0.2, solved=0.5)
    judged = judge([1.0, 0.6, 0.3, 0.0], [0.5, 0.5, 0.3, 0.5], settings)
    assert judged == Judgement(pytest.approx(0.475), 0.25, 0.25, pytest.approx(0.45), Fitness.FIT)


def test_a_score_is_compared_with_the_controls_on_its_own_deal():
    """Player and control have the same scores on other deals: one of two is better, and sorted ones would be alike."""
    assert judge([1.0, 0.0], [0.0, 1.0], SETTINGS).better == 0.5


def test_a_game_of_every_other_iteration_is_due_in_the_first():
    run = RunConfig.model_validate(
        {"games": {"kuhn_poker": {"matches": 60}, "tiny_hanabi": {"matches": 40, "every": 3}}}
    )
    specs = {game: make_game(game).spec for game in run.games}
    assert ["tiny_hanabi" in matches_by_game(run, specs, (), number) for number in range(1, 8)] == [
        *(True, False, False, True, False, False, True)
    ]


def test_each_game_has_whole_trees_of_its_own_size():
    """Two replies at each of 2 and 3 turns: 4 and 8 matches. Of 124, shares of 48 and 76 come to 12 and 9 trees."""
    games = {
        "tiny_hanabi": {"matches": 40},
        "kuhn_poker": {"matches": 64},
        "signalling(rounds=1,form=1)": {"matches": 20},
    }
    run = RunConfig.model_validate({"games": games, "matchmaking": {"tree": 2}, "curriculum": {"kept": 0.0}})
    specs = {game: make_game(game).spec for game in run.games}
    assert matches_by_game(run, specs, ("tiny_hanabi", "kuhn_poker"), 1) == {"tiny_hanabi": 48, "kuhn_poker": 72}


def test_thresholds_are_the_papers_strict_ones():
    """Pr[R > high] < solved, Pr[R > R_c + margin] > better, E[R_c] < sufficient."""
    scores_N, control_N = [1.0, 0.0], [0.0, 0.5]
    for changed, fitness in [
        ({"solved": 0.51}, Fitness.FIT),
        ({"solved": 0.5}, Fitness.TRIVIAL),
        ({"better": 0.49}, Fitness.FIT),
        ({"better": 0.5}, Fitness.IMPOSSIBLE),
        ({"sufficient": 0.26}, Fitness.FIT),
        ({"sufficient": 0.25}, Fitness.CONTROL_SUFFICES),
    ]:
        assert judge(scores_N, control_N, CurriculumConfig(matches=2, **changed)).fitness is fitness, changed


def test_players_whose_scores_are_known_in_closed_form():
    """Adding without carrying is right if no column overflows, in base 3 with (2/3)^n of n columns, n from 1 to 4."""
    game = "sums(base=3)"
    no_carry = sum((2 / 3) ** n for n in range(1, 5)) / 4
    at_random = sum((1 / 3) ** (n + 1) for n in range(1, 5)) / 4
    judged = judge(scores("scripted:no_carry", game), scores("random", game), SETTINGS)
    assert judged.fitness is Fitness.FIT
    assert judged.score == judged.high == pytest.approx(no_carry, abs=0.06)
    assert judged.control == pytest.approx(at_random, abs=0.03)
    right_alone = sum((2 / 3) ** n * (1 - (1 / 3) ** (n + 1)) for n in range(1, 5)) / 4
    assert judged.better == pytest.approx(right_alone, abs=0.06)


@pytest.mark.parametrize(
    ("player", "control", "fitness"),
    [
        ("scripted:optimal", "random", Fitness.TRIVIAL),
        ("random", "scripted:optimal", Fitness.CONTROL_SUFFICES),
        ("scripted:poor", "random", Fitness.IMPOSSIBLE),
        ("scripted:no_carry", "scripted:no_carry", Fitness.IMPOSSIBLE),
    ],
)
def test_trivial_and_impossible_games(player, control, fitness):
    assert judge(scores(player, "sums(base=3)"), scores(control, "sums(base=3)"), SETTINGS).fitness is fitness


def test_unless_set_otherwise_no_game_is_impossible():
    """What is hard is missed by few matches: one right answer in a hundred by 16 of them in 85 cases of 100."""
    settings = CurriculumConfig(matches=40)
    assert judge([0.0] * 40, [0.0] * 40, settings).fitness is Fitness.FIT
    assert judge([1.0] * 40, [0.0] * 40, settings).fitness is Fitness.TRIVIAL
    bar = CurriculumConfig(matches=40, better=0.0)
    assert judge([0.0] * 39 + [0.5], [0.0] * 40, bar).fitness is Fitness.FIT
    assert judge([0.0] * 40, [0.0] * 40, bar).fitness is Fitness.IMPOSSIBLE


def judged_as(**fitness):
    return {game: Judgement(0.5, 0.0, 0.5, 0.5, kind) for game, kind in fitness.items()}


def test_the_active_games_are_those_that_are_fit():
    games = judged_as(a=Fitness.FIT, b=Fitness.TRIVIAL, c=Fitness.FIT, d=Fitness.IMPOSSIBLE, e=Fitness.FIT)
    assert active_games(games, SETTINGS, random.Random(0)) == ("a", "c", "e")
    assert active_games(games, CurriculumConfig(matches=1, filter=False), random.Random(0)) == tuple("abcde")
    assert active_games(judged_as(a=Fitness.TRIVIAL, b=Fitness.IMPOSSIBLE), SETTINGS, random.Random(0)) == ("a", "b")
    two = CurriculumConfig(matches=1, active=2)
    drawn = [active_games(games, two, random.Random(seed)) for seed in range(60)]
    assert set(drawn) == {("a", "c"), ("a", "e"), ("c", "e")}


def config(group_size=1, kept=0.0, **matches):
    data = {"games": {name: {"matches": number} for name, number in matches.items()}}
    tables = {"matchmaking": {"group_size": group_size}, "curriculum": {"kept": kept}}
    return RunConfig.model_validate(data | tables)


def test_active_games_have_the_matches_of_the_others_in_proportion_to_their_own():
    run = config(kuhn_poker=60, tic_tac_toe=20, tiny_hanabi=40)
    specs = {game: make_game(game).spec for game in run.games}
    assert matches_by_game(run, specs, (), 1) == {"kuhn_poker": 60, "tic_tac_toe": 20, "tiny_hanabi": 40}
    assert matches_by_game(run, specs, ("kuhn_poker", "tic_tac_toe"), 1) == {"kuhn_poker": 90, "tic_tac_toe": 30}
    assert matches_by_game(run, specs, ("tiny_hanabi",), 7) == {"tiny_hanabi": 120}
    assert matches_by_game(run, specs, ("a game that the run has no more",), 1)["kuhn_poker"] == 60
    groups = config(group_size=8, kuhn_poker=64, tic_tac_toe=24, tiny_hanabi=40)
    shared = matches_by_game(groups, specs, ("kuhn_poker", "tic_tac_toe"), 1)
    assert shared == {"kuhn_poker": 88, "tic_tac_toe": 32}  # of 93.1 and 34.9 whole groups


def test_a_game_that_is_not_drawn_keeps_a_share_of_its_own_matches():
    """Of 60, 20 and 40 matches a quarter of 40 is kept: 110 are left, 82.5 and 27.5 of them for the active games."""
    run = config(kept=0.25, kuhn_poker=60, tic_tac_toe=20, tiny_hanabi=40)
    specs = {game: make_game(game).spec for game in run.games}
    shared = matches_by_game(run, specs, ("kuhn_poker", "tic_tac_toe"), 1)
    assert shared == {"kuhn_poker": 83, "tic_tac_toe": 27, "tiny_hanabi": 10}
    others = matches_by_game(run, specs, ("tic_tac_toe", "tiny_hanabi"), 1)
    assert others == {"kuhn_poker": 15, "tic_tac_toe": 35, "tiny_hanabi": 70}
    assert list(others) == list(run.games), "in the order of the games, as without a curriculum"
    groups = config(group_size=8, kept=0.25, kuhn_poker=64, tic_tac_toe=24, tiny_hanabi=40)
    shared = matches_by_game(groups, specs, ("kuhn_poker",), 1)
    assert shared == {"kuhn_poker": 120, "tiny_hanabi": 8}  # a quarter of 24 is no whole group
    every = config(kept=1.0, kuhn_poker=60, tic_tac_toe=20, tiny_hanabi=40)
    assert matches_by_game(every, specs, ("kuhn_poker",), 1) == matches_by_game(every, specs, (), 1)
