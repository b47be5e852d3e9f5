"""The weight of a pair: the integral it stands for, its order, and the greatest ones of many without all tails."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from league.theory import opportunity_cost as costs
from league.theory.opportunity_cost import greatest_costs, opportunity_cost


def of_two(deals, score, error):
    other = 1.0 - score
    matrices = ([[0.0, deals], [deals, 0.0]], [[0.5, score], [other, 0.5]], [[0.0, error], [error, 0.0]])
    return float(opportunity_cost(*(np.array(matrix) for matrix in matrices))[0, 1])


@pytest.mark.parametrize(("deals", "score", "error"), [(10.0, 0.6, 0.1), (400.0, 0.47, 0.02), (3.0, 1.0, 0.0)])
def test_the_weight_is_the_expected_loss_of_calling_it_now(deals, score, error):
    """Integrate max(0, ½ - x) over the posterior of whoever is ahead."""
    variance = (deals * deals * error**2 + 0.5) / (deals + 2)
    mean, spread = (deals * score + 1) / (deals + 2), math.sqrt(variance / (deals + 3))
    ahead = max(mean, 1 - mean)
    expected, _ = integrate.quad(lambda x: (0.5 - x) * stats.norm.pdf(x, ahead, spread), ahead - 12 * spread, 0.5)
    assert of_two(deals, score, error) == pytest.approx(expected, rel=1e-6)


def test_a_pair_that_never_met_comes_first_then_the_closest_then_the_least_played():
    never, once = of_two(0.0, math.nan, math.nan), of_two(1.0, 1.0, math.nan)
    assert never == pytest.approx(math.sqrt(1 / 12) / math.sqrt(2 * math.pi))
    assert never > once > of_two(100.0, 0.55, 0.05) > of_two(100.0, 0.8, 0.05) > of_two(400.0, 0.8, 0.025)
    assert of_two(100.0, 0.5, 0.05) > of_two(400.0, 0.5, 0.025)


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_weights_are_symmetric_finite_and_zero_on_the_diagonal(size, seed):
    rng = np.random.default_rng(seed)
    deals, score = rng.integers(0, 4, (size, size)).astype(float), rng.random((size, size))
    deals, score = deals + deals.T, (score + 1.0 - score.T) / 2.0
    score[deals == 0] = np.nan
    weights = opportunity_cost(deals, score, np.where(deals > 1, 0.1, np.nan))
    assert np.isfinite(weights).all()
    assert (weights == weights.T).all()
    assert (np.diag(weights) == 0.0).all()
    assert (weights >= 0.0).all()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"three matrices \[N, N\]"):
        opportunity_cost(np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2)))


def of_players(number, seed, most_deals=4):
    """Return deals, scores and errors of every two players [K]: many equal, some who never met."""
    rng = np.random.default_rng(seed)
    deals = rng.integers(0, most_deals + 1, number * (number - 1) // 2).astype(float)
    won = np.floor(rng.random(len(deals)) * (2 * deals + 1)) / 2.0
    score = np.divide(won, deals, out=np.full(len(deals), np.nan), where=deals > 0)
    error = np.where(deals > 1, rng.choice([0.0, 0.05, 0.3], len(deals)), np.nan)
    return deals, score, error


@given(st.integers(0, 14), st.integers(0, 10**6), st.sampled_from([1, 4, 50, 10**6]), st.integers(1, 12))
def test_the_greatest_are_those_of_all_with_all_that_equal_the_last(number, seed, most_deals, most):
    deals, score, error = of_players(number, seed, most_deals)
    pairs, matrices = np.triu_indices(number, 1), []
    for values in (deals, score, error):
        matrices.append(np.zeros((number, number)))
        matrices[-1][pairs] = values
    every = opportunity_cost(*matrices)[pairs]
    least = np.sort(every)[-most] if len(every) > most else -1.0
    places, weights = greatest_costs(deals, score, error, most)
    assert places.tolist() == np.flatnonzero(every >= least).tolist()
    assert weights.tolist() == every[places].tolist()


def test_few_tails_are_computed(monkeypatch):
    """Of 45,000 pairs whose scores all differ, for the greatest twelve: a tail takes as long as all else of a pair."""
    tails, weights_of = [], costs._weights
    monkeypatch.setattr(costs, "_weights", lambda spread, z: tails.append(len(z)) or weights_of(spread, z))
    rng = np.random.default_rng(0)
    deals, score = rng.integers(50, 500, 45_000).astype(float), rng.random(45_000)
    places, _ = greatest_costs(deals, score, 0.5 / np.sqrt(deals), 12)
    assert len(places) == 12
    assert sum(tails) < 200
