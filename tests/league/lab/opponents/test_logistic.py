"""The linear probe: conditions of its minimum, and shares that it must reproduce."""

import numpy as np
import pytest

from league.lab.opponents.logistic import fit_probe


def test_without_a_ridge_groups_have_their_shares():
    """The maximum-likelihood fit of one indicator a group is each group's share of each class."""
    counts = np.array([[3.0, 1.0, 4.0], [1.0, 5.0, 2.0], [6.0, 2.0, 2.0]])
    found = fit_probe(np.eye(3), counts, shrink=0.0).probabilities(np.eye(3))
    assert found == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-5)


def test_features_that_say_nothing_leave_the_shares_of_all():
    counts = np.array([[2.0, 6.0], [1.0, 3.0]])
    probe = fit_probe(np.ones((2, 4)), counts, shrink=1.0)
    assert probe.probabilities(np.ones((2, 4))) == pytest.approx(np.array([[0.25, 0.75]] * 2), abs=1e-6)


def test_the_ridge_balances_the_errors():
    """At the minimum Σ (m_n σ_n − m_n) f_n + shrink W = 0 for the standardised features, and the errors sum to zero."""
    rng = np.random.default_rng(0)
    features, counts = rng.normal(size=(40, 5)) * 3 + 1, rng.integers(0, 4, size=(40, 3)).astype(float)
    probe = fit_probe(features, counts, shrink=2.0)
    standard = (features - probe.mean) / probe.scale
    error = counts.sum(axis=1, keepdims=True) * probe.probabilities(features) - counts
    assert standard.T @ error + 2.0 * probe.weights == pytest.approx(np.zeros((5, 3)), abs=1e-4)
    assert error.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-4)
    weighed = counts.sum(axis=1) @ standard
    assert weighed == pytest.approx(np.zeros(5), abs=1e-9)


def test_equal_rows_are_one_row_with_their_counts_and_units_do_not_matter():
    rng = np.random.default_rng(1)
    features, counts = rng.normal(size=(6, 3)), rng.integers(1, 4, size=(6, 2)).astype(float)
    once = fit_probe(features, counts, shrink=1.0).probabilities(features)
    times = np.array([1, 2, 3, 1, 5, 2])
    split = fit_probe(features.repeat(times, 0), (counts / times[:, None]).repeat(times, 0), shrink=1.0)
    halves = split.probabilities(features)
    scaled = fit_probe(features * [1.0, 100.0, 1e-3], counts, shrink=1.0).probabilities(features * [1.0, 100.0, 1e-3])
    assert halves == pytest.approx(once, abs=1e-6)
    assert scaled == pytest.approx(once, abs=1e-6)
