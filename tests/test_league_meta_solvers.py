"""Mixtures over a population: games whose equilibria are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from league.meta_solvers import META_SOLVERS, antisymmetric, linear, nash, uniform

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


@settings(deadline=None, max_examples=40)
@given(MATRICES, st.sampled_from(sorted(META_SOLVERS)))
def test_every_solver_returns_a_distribution(payoffs: np.ndarray, name: str) -> None:
    mixture = META_SOLVERS[name](payoffs)
    assert mixture.shape == (len(payoffs),)
    assert mixture.min() >= 0.0
    assert mixture.sum() == pytest.approx(1.0)
