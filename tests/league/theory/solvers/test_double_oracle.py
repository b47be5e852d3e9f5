"""Equilibria of many players: the full program's value, and Nash averaging's answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.timing import processor_seconds

from league.theory.solvers import antisymmetric, nash_average
from league.theory.solvers.double_oracle import nash_average_of_many, nash_of_many, regret_matching
from league.theory.solvers.nash import maximin, symmetric_vertex

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def population(size, seed, cyclic=0.5):
    """Return a payoff matrix of skills on a line, and of what no line explains."""
    rng = np.random.default_rng(seed)
    skill, noise = rng.normal(size=size), rng.normal(size=(size, size))
    return np.tanh(skill[:, None] - skill[None]) + cyclic * (noise - noise.T)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 2.0]))
def test_the_equilibrium_has_the_value_of_the_full_program(size, seed, cyclic):
    payoffs = population(size, seed, cyclic)
    mixture = nash_of_many(payoffs)
    assert mixture.sum() == pytest.approx(1.0)
    assert mixture.min() >= 0.0
    _, value = maximin(antisymmetric(payoffs))
    assert (mixture @ antisymmetric(payoffs)).min() == pytest.approx(value, abs=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 25), st.integers(0, 10**6))
def test_nash_averaging_of_many_is_that_of_few_copies_and_level_players_included(size, seed):
    """Payoffs of -1, 0 and 1 have many equilibria, and the one of greatest entropy is unique.

    Solvers stop at 1e-7 of the entropy, which is flat there.
    """
    rng = np.random.default_rng(seed)
    payoffs = np.sign(np.round(population(size, seed, 1.0)))
    copies = rng.integers(0, size, size + 5)
    crowd = payoffs[np.ix_(copies, copies)]
    few, many = nash_average(crowd), nash_average_of_many(crowd)
    np.testing.assert_allclose(many.mixture, few.mixture, atol=1e-3)
    np.testing.assert_allclose(many.ratings, few.ratings, atol=1e-3)


def test_copies_of_rock_change_nothing():
    crowd = np.array([0] * 500 + [1, 2])
    average = nash_average_of_many(ROCK_PAPER_SCISSORS[np.ix_(crowd, crowd)])
    np.testing.assert_allclose(average.mixture[500:], 1 / 3, atol=1e-6)
    np.testing.assert_allclose(average.ratings, 0.0, atol=1e-6)


@pytest.mark.timed
def test_a_thousand_players_take_half_a_second_of_work():
    payoffs = population(1000, 0, 0.2)
    assert processor_seconds(lambda: nash_average_of_many(payoffs), repeats=3) < 0.5


def test_a_thousand_players_are_solved_to_a_millionth():
    payoffs = population(1000, 0, 0.2)
    mixture = nash_average_of_many(payoffs).mixture
    assert (antisymmetric(payoffs) @ mixture).max() < 1e-6


def test_regret_matching_nears_the_equilibrium():
    """Rock, paper, scissors with a double stake on rock against scissors: (c, a, b) / (a + b + c) by closed form."""
    game = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-2.0, 1.0, 0.0]])
    distances = [np.abs(regret_matching(game, rounds) - [1 / 4, 2 / 4, 1 / 4]).max() for rounds in (100, 1_000, 10_000)]
    assert distances[1] < distances[0] / 3
    assert distances[2] < distances[1] / 3
    assert distances[2] < 0.01


def level_players():
    """Return one deal a pair among equals: chance alone tells them apart, and half of them are in the equilibrium."""
    wins = np.triu(np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(1000, 1000)), 1)
    return wins - wins.T


@pytest.mark.timed
def test_a_thousand_level_players_take_four_seconds_of_work():
    game = level_players()
    assert processor_seconds(lambda: nash_average_of_many(game), repeats=3) < 4.0


def test_a_thousand_level_players_are_solved_to_a_thousandth():
    game = level_players()
    average = nash_average_of_many(game)
    assert average.mixture.sum() == pytest.approx(1.0)
    assert average.ratings == pytest.approx(game @ average.mixture)
    assert average.ratings.max() < 2e-3
    assert nash_of_many(game) == pytest.approx(average.mixture)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6), st.booleans())
def test_nobody_gains_against_a_vertex_and_it_uses_no_more_players_than_needed(size, seed, tied):
    """A vertex's players cannot be mixed in two ways: their payoffs have a kernel of one dimension."""
    rng = np.random.default_rng(seed)
    game = antisymmetric(rng.integers(-1, 2, (size, size)).astype(float) if tied else rng.normal(size=(size, size)))
    mixture = symmetric_vertex(game)
    assert mixture.sum() == pytest.approx(1.0)
    assert mixture.min() >= 0.0
    assert (game @ mixture).max() < 1e-10
    used = np.flatnonzero(mixture > 1e-9)
    extended = np.vstack([game[:, used][(game @ mixture) > -1e-9], np.ones(len(used))])
    assert np.linalg.matrix_rank(extended, tol=1e-9) == len(used)


def test_a_vertex_of_a_game_with_one_equilibrium_is_that_one():
    """The double stake on rock against scissors, as below; with a fourth player who loses to all."""
    game = np.array([[0.0, -1.0, 2.0, 9.0], [1.0, 0.0, -1.0, 9.0], [-2.0, 1.0, 0.0, 9.0], [-9.0, -9.0, -9.0, 0.0]])
    assert symmetric_vertex(game) == pytest.approx([1 / 4, 2 / 4, 1 / 4, 0.0])
    for unit in (1e6, 1e-12):
        assert symmetric_vertex(unit * game) == pytest.approx([1 / 4, 2 / 4, 1 / 4, 0.0])


def test_what_is_nearly_a_second_equilibrium_counts_as_one():
    """Rock and paper have twins, a hair worse or better: one equilibrium is left, yet both twins share the mass."""
    rng = np.random.default_rng(3)
    kinds = np.array([0, 1, 2, 0, 1])
    noise = rng.normal(size=(5, 5)) * 1e-8
    game = ROCK_PAPER_SCISSORS[np.ix_(kinds, kinds)] + noise - noise.T
    assert nash_average_of_many(game).mixture == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 6, 1 / 6], abs=0.05)
