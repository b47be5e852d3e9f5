"""Cycles among players: planted ones are named, noise and rankings are not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.algorithms.elo import compute_ratings_from_matrices

from league.theory.components import strong_components
from league.theory.cycles import find_cycles, significant_wins
from league.theory.solvers import nash_average

NAMES = ["rock", "paper", "scissors"]
ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def test_rock_paper_scissors_is_named() -> None:
    (cycle,) = find_cycles(NAMES, ROCK_PAPER_SCISSORS)
    assert str(cycle) == "rock beats scissors beats paper beats rock"
    assert cycle.margin == 1.0


def test_a_cycle_is_as_wide_as_its_narrowest_win() -> None:
    """Rock beats scissors by 0.9, scissors paper by 0.2, paper rock by 0.5, in margins (P - P') / 2."""
    payoffs = np.array([[0.0, -0.5, 0.9], [0.5, 0.0, -0.2], [-0.9, 0.2, 0.0]])
    (cycle,) = find_cycles(NAMES, payoffs)
    assert cycle.players == ("rock", "scissors", "paper")
    assert cycle.margin == pytest.approx(0.2)


def test_a_cyclic_population_has_equal_elo_ratings_and_copies_mislead_them() -> None:
    """Elo expects 1/2 where one side always wins; a second rock lifts paper, and Nash averaging sees no change."""
    wins = (ROCK_PAPER_SCISSORS > 0) * 100
    level = compute_ratings_from_matrices(wins)
    assert np.ptp(level) < 1e-6  # every pair is predicted to be even, and every pair is certain
    rocks = [0, 0, 0, 1, 2]
    crowd = ROCK_PAPER_SCISSORS[np.ix_(rocks, rocks)]
    draws = (crowd == 0) * (1 - np.eye(5, dtype=int)) * 100
    misled = compute_ratings_from_matrices((crowd > 0) * 100, draws)
    assert misled[3] > misled[0] + 100.0 > misled[4] + 200.0  # paper, the rocks, scissors: hundreds of points apart
    np.testing.assert_allclose(nash_average(crowd).ratings, 0.0, atol=1e-6)
    assert str(find_cycles([*"abc", "paper", "scissors"], crowd)[0]) == "a beats scissors beats paper beats a"


def test_only_wins_beyond_their_errors_count() -> None:
    """Three pairs at 95 %: Bonferroni asks for 2.394 standard errors (normal quantile of 1 - 0.05 / 6)."""
    payoffs = 0.1 * ROCK_PAPER_SCISSORS
    assert find_cycles(NAMES, payoffs, np.full((3, 3), 0.1 / 2.40)) != []
    assert find_cycles(NAMES, payoffs, np.full((3, 3), 0.1 / 2.39)) == []


def test_errors_measured_on_few_deals_are_errors_themselves() -> None:
    """Bonferroni over three pairs with ten deals: Student's quantile of 1 - 0.05 / 6 with 9 degrees is 2.9333."""
    payoffs, deals = 0.1 * ROCK_PAPER_SCISSORS, np.full((3, 3), 10)
    assert find_cycles(NAMES, payoffs, np.full((3, 3), 0.1 / 2.94), deals=deals) != []
    assert find_cycles(NAMES, payoffs, np.full((3, 3), 0.1 / 2.93), deals=deals) == []
    assert find_cycles(NAMES, payoffs, np.full((3, 3), 1e-9), deals=np.full((3, 3), 1)) == [], "one deal shows nothing"


def test_one_unsure_link_breaks_the_cycle() -> None:
    errors = np.full((3, 3), 0.01)
    errors[0, 1] = errors[1, 0] = 2.0
    assert find_cycles(NAMES, ROCK_PAPER_SCISSORS, errors) == []
    errors[0, 1] = np.nan
    assert find_cycles(NAMES, ROCK_PAPER_SCISSORS, errors) == []


def test_pairs_that_never_met_and_level_pairs_have_no_arrow() -> None:
    payoffs = ROCK_PAPER_SCISSORS.copy()
    payoffs[0, 1] = payoffs[1, 0] = np.nan
    assert find_cycles(NAMES, payoffs) == []
    assert find_cycles(NAMES, np.zeros((3, 3))) == []


def test_constants_cancel() -> None:
    """Scores in [0, 1] tell the same as returns."""
    scores = ROCK_PAPER_SCISSORS / 2 + 0.5
    assert [str(cycle) for cycle in find_cycles(NAMES, scores)] == ["rock beats scissors beats paper beats rock"]


def test_noise_is_rarely_named() -> None:
    """400 populations of six level players, measured with noise: a false arrow in at most 5 % (here ± 3 sigma)."""
    generator = np.random.default_rng(0)
    false = 0
    for _ in range(400):
        half = np.triu(generator.normal(size=(6, 6)), 1)
        false += bool(significant_wins(half - half.T, np.ones((6, 6)), 0.95)[0].any())
    assert false / 400 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_two_cycles_joined_by_a_one_way_win_are_two() -> None:
    payoffs = np.block([[ROCK_PAPER_SCISSORS, np.ones((3, 3))], [-np.ones((3, 3)), 0.5 * ROCK_PAPER_SCISSORS]])
    cycles = find_cycles([*"abcdef"], payoffs)
    assert [str(cycle) for cycle in cycles] == ["a beats c beats b beats a", "d beats f beats e beats d"]
    assert [cycle.margin for cycle in cycles] == [1.0, 0.5]


def test_a_ring_of_five_is_one_cycle_of_five() -> None:
    payoffs = np.zeros((5, 5))
    for player in range(5):
        payoffs[player, (player + 1) % 5], payoffs[(player + 1) % 5, player] = 1.0, -1.0
    assert [str(cycle) for cycle in find_cycles([*"abcde"], payoffs)] == [
        "a beats b beats c beats d beats e beats a",
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 9), st.floats(0.1, 1.0), st.integers(0, 10_000))
def test_exactly_the_players_on_cycles_are_named(size: int, density: float, seed: int) -> None:
    """Against the transitive closure: i lies on a cycle if and only if i reaches i; every edge of a cycle is a win."""
    generator = np.random.default_rng(seed)
    half = np.triu(generator.choice([-1.0, 1.0], (size, size)) * (generator.random((size, size)) < density), 1)
    payoffs = half - half.T
    reaches = payoffs > 0
    for via in range(size):
        reaches |= np.outer(reaches[:, via], reaches[via])
    names = [str(player) for player in range(size)]
    cycles = find_cycles(names, payoffs)
    assert {int(name) for cycle in cycles for name in cycle.players} == set(np.flatnonzero(np.diag(reaches)))
    for cycle in cycles:
        assert len(set(cycle.players)) == len(cycle.players) >= 3
        for a, b in itertools.pairwise([*cycle.players, cycle.players[0]]):
            assert payoffs[int(a), int(b)] > 0


@settings(deadline=None, max_examples=30)
@given(st.permutations(range(6)), st.integers(0, 1000))
def test_a_ranking_has_no_cycle(order: list[int], seed: int) -> None:
    skill = np.sort(np.random.default_rng(seed).random(6))[order]
    assert find_cycles([*"abcdef"], skill[:, None] - skill[None]) == []


def test_a_long_list_is_cut_for_each_component() -> None:
    half = np.triu(np.random.default_rng(0).normal(size=(60, 60)), 1)
    names = [str(player) for player in range(60)]
    assert len(find_cycles(names, half - half.T)) == 20
    assert len(find_cycles(names, half - half.T, limit=3)) == 3


def test_components_and_bad_input() -> None:
    assert strong_components(np.zeros((4, 4), dtype=bool)) == []
    with pytest.raises(ValueError, match="a name for each of 3"):
        find_cycles(["a"], ROCK_PAPER_SCISSORS)
    with pytest.raises(ValueError, match=r"\[N, N\]"):
        find_cycles(["a"], np.zeros((1, 2)))
    with pytest.raises(ValueError, match="standard errors"):
        find_cycles(NAMES, ROCK_PAPER_SCISSORS, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="expected deals"):
        find_cycles(NAMES, ROCK_PAPER_SCISSORS, np.zeros((3, 3)), deals=np.ones((2, 2), np.int64))
    with pytest.raises(ValueError, match="confidence"):
        find_cycles(NAMES, ROCK_PAPER_SCISSORS, None, 1.0)
