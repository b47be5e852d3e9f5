"""Mixtures over a population: games whose equilibria are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from support.timing import processor_seconds

from games.common.errors import UsageError
from league.theory.meta_solvers import META_SOLVERS
from league.theory.solvers import (
    EmpiricalGame,
    antisymmetric,
    linear,
    nash,
    nash_average,
    nash_averaging,
    uniform,
    zero_sum_nash,
)

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
MATRICES = npst.arrays(
    np.float64, st.integers(1, 6).map(lambda n: (n, n)), elements=st.floats(-3, 3, width=16) | st.just(float("nan"))
)


def test_uniform_and_linear() -> None:
    payoffs = np.zeros((4, 4))
    assert uniform(payoffs) == pytest.approx([0.25] * 4)
    assert linear(payoffs) == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_nash_of_rock_paper_scissors_is_uniform() -> None:
    assert nash(ROCK_PAPER_SCISSORS) == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(("a", "b", "c"), [(2.0, 1.0, 1.0), (5.0, 3.0, 1.0), (1.0, 1.0, 10.0)])
def test_nash_of_biased_rock_paper_scissors_has_its_closed_form(a: float, b: float, c: float) -> None:
    """Rock wins a against scissors, paper b against rock, scissors c against paper: x = (c, a, b) / (a + b + c)."""
    payoffs = np.array([[0.0, -b, a], [b, 0.0, -c], [-a, c, 0.0]])
    assert nash(payoffs) == pytest.approx(np.array([c, a, b]) / (a + b + c))


def test_duplicates_share_the_mass_of_the_original() -> None:
    copies = [0, 0, 0, 1, 2, 2]
    mixture = nash(ROCK_PAPER_SCISSORS[np.ix_(copies, copies)])
    masses = [sum(mixture[i] for i, original in enumerate(copies) if original == kind) for kind in range(3)]
    assert masses == pytest.approx([1 / 3] * 3)


def test_a_dominant_snapshot_takes_all() -> None:
    scores = np.array([[np.nan, 0.4, 0.1], [0.6, np.nan, 0.3], [0.9, 0.7, np.nan]])
    assert nash(scores) == pytest.approx([0.0, 0.0, 1.0])


def test_what_never_met_counts_as_level() -> None:
    payoffs = np.full((2, 2), np.nan)
    np.testing.assert_array_equal(antisymmetric(payoffs), np.zeros((2, 2)))
    assert nash(payoffs).sum() == pytest.approx(1.0)
    assert nash(np.array([[np.nan]])) == pytest.approx([1.0])


def test_constants_and_scale_cancel() -> None:
    payoffs = np.array([[0.0, -3.0, 5.0], [3.0, 0.0, -1.0], [-5.0, 1.0, 0.0]])
    assert nash(payoffs / 20 + 0.5) == pytest.approx(nash(payoffs))


@settings(deadline=None, max_examples=40)
@given(MATRICES)
def test_no_column_beats_the_nash_mixture(payoffs: np.ndarray) -> None:
    assert (nash(payoffs) @ antisymmetric(payoffs)).min() >= -1e-7
    assert (nash_averaging(payoffs) @ antisymmetric(payoffs)).min() >= -1e-5


def test_a_zero_sum_game_of_two_populations() -> None:
    """[[2, -1], [-1, 1]] (Ferguson's example of a 2 x 2 game): both mix 2 : 3, and the value is 1 / 5."""
    row = np.array([[2.0, -1.0], [-1.0, 1.0]])
    for constant in (0.0, 7.0):
        first, second = zero_sum_nash(EmpiricalGame(np.stack([row, constant - row])))
        np.testing.assert_allclose([first, second], [[0.4, 0.6], [0.4, 0.6]])
        assert first @ row @ second == pytest.approx(0.2)
    wide = np.array([[3.0, 0.0, 5.0], [0.0, 3.0, 5.0]])  # the column player has a strategy that it never wants
    first, second = zero_sum_nash(EmpiricalGame(np.stack([wide, -wide])))
    np.testing.assert_allclose(first, [0.5, 0.5])
    np.testing.assert_allclose(second, [0.5, 0.5, 0.0], atol=1e-12)


def test_what_is_not_two_player_zero_sum_is_refused() -> None:
    with pytest.raises(UsageError, match="this game has 3"):
        zero_sum_nash(EmpiricalGame(np.zeros((3, 2, 2, 2))))
    with pytest.raises(UsageError, match="sum runs from 0 to 2"):
        zero_sum_nash(EmpiricalGame(np.stack([np.eye(2), np.eye(2)])))


def test_nash_averaging_rates_by_the_equilibrium_of_greatest_entropy() -> None:
    weights, ratings = nash_average(ROCK_PAPER_SCISSORS)
    np.testing.assert_allclose(weights, 1 / 3, atol=1e-6)
    np.testing.assert_allclose(ratings, 0.0, atol=1e-6)
    skill = np.array([2.0, 0.0, 3.0])
    weights, ratings = nash_average(2 * (skill[:, None] - skill[None]))
    np.testing.assert_allclose(weights, [0.0, 0.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(ratings, [-2.0, -6.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(nash_averaging(np.zeros((5, 5))), 0.2, atol=1e-6)


def test_nash_averaging_takes_the_flattest_of_many_equilibria() -> None:
    """Two rock-paper-scissors cycles, level with each other: any weights of the two are in equilibrium."""
    payoffs = np.block([[ROCK_PAPER_SCISSORS, np.zeros((3, 3))], [np.zeros((3, 3)), 5 * ROCK_PAPER_SCISSORS]])
    np.testing.assert_allclose(nash_averaging(payoffs), 1 / 6, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.lists(st.integers(0, 4), max_size=6), st.integers(0, 10_000), st.booleans())
def test_clones_never_change_nash_averaging(size: int, clones: list[int], seed: int, coarse: bool) -> None:
    """Copies share the mass of who they copy; all else stays, also with many equilibria (coarse: whole payoffs)."""
    half = np.triu(np.random.default_rng(seed).normal(size=(size, size)), 1)
    payoffs = np.sign(np.round(half - half.T)) if coarse else half - half.T
    originals = [*range(size), *(clone % size for clone in clones)]
    alone, crowd = nash_average(payoffs), nash_average(payoffs[np.ix_(originals, originals)])
    masses = np.bincount(originals, crowd.mixture, size)
    groups = [[j for j in range(size) if (payoffs[i] == payoffs[j]).all()] for i in range(size)]
    for group in groups:  # who was alike before is one player to begin with
        assert masses[group].sum() == pytest.approx(alone.mixture[group].sum(), abs=1e-6)
    np.testing.assert_allclose(crowd.ratings, alone.ratings[originals], atol=1e-6)


@pytest.mark.timed
def test_a_hundred_players_are_solved_in_under_50_ms() -> None:
    half = np.triu(np.random.default_rng(0).normal(size=(100, 100)), 1)
    assert processor_seconds(lambda: nash(half - half.T), repeats=10) < 0.05


def test_who_reads_payoffs_is_told() -> None:
    """A solver by age gives the same weights whatever the payoffs."""
    first_leads = np.array([[0.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, -1.0, 0.0]])
    indifferent = {
        n for n, entry in META_SOLVERS.items() if np.allclose(entry.make(first_leads), entry.make(-first_leads))
    }
    assert indifferent == {n for n, entry in META_SOLVERS.items() if entry.by_age}


@settings(deadline=None, max_examples=40)
@given(MATRICES, st.sampled_from(sorted(META_SOLVERS)))
def test_every_solver_returns_a_distribution(payoffs: np.ndarray, name: str) -> None:
    mixture = META_SOLVERS[name].make(payoffs)
    assert mixture.shape == (len(payoffs),)
    assert mixture.min() >= 0.0
    assert mixture.sum() == pytest.approx(1.0)
