"""Players that are level but for a millionth, for rounding, or for the units: no solver fails or follows noise."""

from __future__ import annotations

import numpy as np
import pytest

from league.theory.meta_solvers import JOINT_SOLVERS, META_SOLVERS
from league.theory.solvers import (
    EmpiricalGame,
    Matrix,
    alpha_rank,
    alpha_rank_population,
    gaps,
    nash,
    nash_average,
    nash_averaging,
    symmetric_game,
    zero_sum_nash,
)
from league.theory.solvers.double_oracle import nash_average_of_many, nash_of_many
from league.theory.solvers.empirical_game import largest

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
BY_A_MILLIONTH = np.array([[0.0, -1.0, -0.9999999], [1.0, 0.0, 1e-7], [0.9999999, -1e-7, 0.0]])
WEIGHTED = np.array([[0.0, -2.0, 1.0], [2.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # in equilibrium 1 : 1 : 2
JOINT = ("mgce", "mgcce", "mece", "mecce")
MOST_REGRET = 1e-5  # of the largest payoff


def noisy(payoffs: Matrix, noise: float, seed: int) -> Matrix:
    """Return antisymmetric payoffs with antisymmetric noise."""
    draws = np.random.default_rng(seed).standard_normal(payoffs.shape)
    return payoffs + noise * (draws - draws.T) / 2.0


def clones(noise: float, seed: int) -> Matrix:
    """Return rock, paper and scissors three times each, all of them slightly different."""
    return noisy(np.kron(ROCK_PAPER_SCISSORS, np.ones((3, 3))), noise, seed)


@pytest.mark.parametrize("name", JOINT)
def test_two_players_a_ten_millionth_apart_have_correlated_equilibria(name: str) -> None:
    game = symmetric_game(BY_A_MILLIONTH)
    joint = JOINT_SOLVERS[name].make(game)
    assert joint.sum() == pytest.approx(1.0)
    assert gaps(game, joint, "cce" if name in ("mgcce", "mecce") else "ce").max() <= MOST_REGRET


def test_two_players_a_ten_millionth_apart_have_a_nash_average() -> None:
    mixture, ratings = nash_average(BY_A_MILLIONTH)
    assert mixture[0] <= MOST_REGRET  # loses to both
    np.testing.assert_allclose(ratings, [-1.0, 0.0, 0.0], atol=MOST_REGRET)


@pytest.mark.parametrize("noise", [10.0**-power for power in (3, 5, 6, 7, 8, 9, 10, 12, 14, 16)])
def test_slightly_different_copies_never_fail_and_nobody_gains(noise: float) -> None:
    for seed in range(10):
        game = clones(noise, seed)
        for solve in (nash, nash_of_many, nash_averaging, lambda game: nash_average_of_many(game).mixture):
            assert (game @ solve(game)).max() <= MOST_REGRET


@pytest.mark.parametrize("name", JOINT)
def test_slightly_different_copies_have_correlated_equilibria(name: str) -> None:
    for noise in (1e-6, 1e-7, 1e-9):
        game = symmetric_game(clones(noise, 0))
        entry = JOINT_SOLVERS[name]
        assert gaps(game, entry.make(game), "ce" if entry.advises else "cce").max() <= MOST_REGRET


@pytest.mark.parametrize("scale", [1e6, 1.0, 1e-3, 1e-6, 1e-8, 1e-9, 1e-12])
@pytest.mark.parametrize("name", ["nash", "nash_averaging", "prd"])
def test_units_do_not_matter_however_small(name: str, scale: float) -> None:
    atol = 1e-2 if name == "prd" else 1e-4  # dynamics only near it
    np.testing.assert_allclose(META_SOLVERS[name].make(scale * WEIGHTED), [0.25, 0.25, 0.5], atol=atol)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-9])
@pytest.mark.parametrize("constant", [0.0, 7.0])
def test_units_do_not_matter_in_a_game_of_two_populations(scale: float, constant: float) -> None:
    """Ferguson's [[2, -1], [-1, 1]]: both mix 2 : 3."""
    row = np.array([[2.0, -1.0], [-1.0, 1.0]])
    for mixture in zero_sum_nash(EmpiricalGame(scale * np.stack([row, constant - row]))):
        np.testing.assert_allclose(mixture, [0.4, 0.6], atol=1e-9)


def test_random_games_in_small_units_leave_no_regret() -> None:
    for seed in range(20):
        game = noisy(np.zeros((12, 12)), 1e-9, seed)
        assert (game @ nash(game)).max() <= 1e-7 * largest(game)


def test_equal_players_are_level_whatever_rounding_says() -> None:
    """Ten returns of 0.1 or of 0.3 add up to sums that differ in the last bits."""
    equal = noisy(np.zeros((4, 4)), 1e-17, 0)
    for payoffs in (equal, 0.3 + equal, 1e6 + 1e6 * equal, np.full((4, 4), 0.1) + 1e-16 * np.eye(4)):
        for solve in (nash_averaging, META_SOLVERS["alpha_rank"].make, META_SOLVERS["prd"].make):
            np.testing.assert_allclose(solve(payoffs), 0.25, atol=1e-6)
    np.testing.assert_allclose(alpha_rank(EmpiricalGame(0.3 + np.stack([equal, equal]))), 1 / 16, atol=1e-6)
    level = zero_sum_nash(EmpiricalGame(np.stack([0.3 + 1e-16 * np.eye(2), -0.3 - np.zeros((2, 2))])))
    assert [mixture.sum() for mixture in level] == pytest.approx([1.0, 1.0])


def test_copies_that_differ_by_rounding_share_one_mass() -> None:
    """Two cycles of three that are level with each other; one player of the first is there five times."""
    cycles = np.block([[ROCK_PAPER_SCISSORS, np.zeros((3, 3))], [np.zeros((3, 3)), ROCK_PAPER_SCISSORS]])
    copies = [0, 0, 0, 0, 0, 1, 2, 3, 4, 5]
    crowd = noisy(cycles[np.ix_(copies, copies)], 1e-16, 1)
    for mixture in (nash_averaging(crowd), nash_average_of_many(crowd).mixture):
        assert mixture[:5].sum() == pytest.approx(1 / 6, abs=1e-5)


@pytest.mark.parametrize("name", sorted(set(META_SOLVERS) - {"uniform", "linear"}))
def test_infinite_payoffs_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="finite payoff"):
        META_SOLVERS[name].make(np.array([[0.0, np.inf], [-np.inf, 0.0]]))
    with pytest.raises(ValueError, match="finite payoff"):
        nash_average_of_many(np.array([[0.0, np.inf], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="finite payoff"):
        alpha_rank_population(np.array([[0.0, np.nan], [0.0, 0.0]]))


def test_payoffs_near_the_end_of_doubles_do_not_overflow() -> None:
    np.testing.assert_allclose(nash(1.5e308 * ROCK_PAPER_SCISSORS), 1 / 3)
