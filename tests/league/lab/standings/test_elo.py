"""Elo in batch: OpenSpiel's ratings, closed forms, intervals that hold, anchors, components, and its time."""

import numpy as np
import pytest
from open_spiel.python.algorithms.elo import compute_ratings_from_matrices
from support.timing import processor_seconds

from league.lab.standings.elo import PRIOR, elo
from league.population.results.match_store import Pairs


def pairs_of(wins, draws=None):
    """Return the pairs of players "p0", "p1", ... from how often row beat column [N, N] and drew with it."""
    wins = np.asarray(wins)
    draws = np.zeros_like(wins) if draws is None else np.asarray(draws)
    a, b = np.nonzero(np.triu(wins + wins.T + draws, 1))
    won, drawn, lost = wins[a, b], draws[a, b], wins[b, a]
    deals = won + drawn + lost
    nothing = np.zeros(len(a))
    names = tuple(f"p{index}" for index in range(len(wins)))
    return Pairs(names, a, b, deals, deals, nothing, nothing, nothing, nothing, won, drawn, lost)


def simulated(skills, deals, seed):
    """Return how often row beat column when all pairs play by Bradley and Terry's model."""
    rng = np.random.default_rng(seed)
    chance = 1.0 / (1.0 + 10.0 ** ((skills[None] - skills[:, None]) / 400.0))
    wins = np.triu(rng.binomial(deals, chance), 1)
    return wins + np.triu(deals - wins, 1).T


def test_ratings_are_those_of_openspiel_but_for_the_constant():
    rng = np.random.default_rng(0)
    wins = rng.integers(1, 60, (9, 9))
    draws = np.triu(rng.integers(0, 20, (9, 9)), 1)
    draws = draws + draws.T
    np.fill_diagonal(wins, 0)
    reference = compute_ratings_from_matrices(wins, draws, smoothing_factor=0.0, convergence_delta=1e-14)
    ratings = elo(pairs_of(wins, draws), prior=1e5).ratings
    np.testing.assert_allclose(ratings - ratings.mean(), reference - reference.mean(), atol=1e-2)


def test_two_players_have_the_closed_form():
    """Three wins in four are 400 log10 3 points; the error is that of a binomial's log-odds, 1 / sqrt(n p q)."""
    fitted = elo(pairs_of([[0, 300], [100, 0]]), ["p1"], prior=1e5)
    assert fitted.ratings == pytest.approx([1500.0 + 400.0 * np.log10(3.0), 1500.0])
    assert fitted.errors == pytest.approx([400.0 / np.log(10.0) / np.sqrt(400 * 0.75 * 0.25), 0.0], abs=1e-3)
    assert fitted.difference(0, 1) == pytest.approx((400.0 * np.log10(3.0), fitted.errors[0]))


def test_a_draw_is_half_a_win():
    drawn = elo(pairs_of([[0, 3], [1, 0]], [[0, 4], [4, 0]]))
    np.testing.assert_allclose(drawn.ratings, elo(pairs_of([[0, 5], [3, 0]])).ratings)


def test_intervals_hold_the_truth_nineteen_times_in_twenty():
    skills = np.array([0.0, 60.0, -150.0, 240.0, 320.0, -90.0])
    truth = 1500.0 + skills - skills[0]
    runs = 300
    inside = sum(
        (np.abs(fitted.ratings - truth) <= 1.96 * fitted.errors)[1:]
        for fitted in (elo(pairs_of(simulated(skills, 30, seed)), ["p0"]) for seed in range(runs))
    )
    assert 0.925 < inside.sum() / (5 * runs) < 0.975
    assert (inside / runs > 0.9).all()


def test_whoever_never_lost_is_finite_and_uncertain_and_the_prior_says_less_than_a_deal():
    fitted = elo(pairs_of([[0, 10, 10], [0, 0, 5], [0, 5, 0]]))
    assert np.isfinite(fitted.ratings).all()
    assert fitted.ratings[0] - 1.96 * fitted.errors[0] > fitted.ratings[1]
    assert fitted.errors[0] > 1.5 * fitted.errors[1]
    tied = elo(pairs_of([[0, 1], [1, 0]]))
    assert (tied.ratings == 1500.0).all()
    assert tied.errors[0] == pytest.approx(
        400 / np.log(10) / 2 / np.sqrt(2 * 0.25 + 0.5 / (PRIOR * np.log(10) / 400) ** 2)
    )


def test_the_first_anchor_there_holds_the_scale_so_that_two_tables_compare():
    wins = simulated(np.array([0.0, 100.0, 200.0, -50.0]), 500, 3)
    fitted = elo(pairs_of(wins), ["absent", "p2", "p0"])
    assert (fitted.ratings[2], fitted.errors[2]) == (1500.0, 0.0)
    assert fitted.errors[[0, 1, 3]].min() > 5.0
    free = elo(pairs_of(wins))
    assert free.ratings.mean() == pytest.approx(1500.0)
    np.testing.assert_allclose(free.ratings - free.ratings[2], fitted.ratings - 1500.0)


def test_players_who_are_not_connected_are_told_apart_each_circle_on_a_scale_of_its_own():
    wins = np.zeros((5, 5), int)
    wins[0, 1], wins[1, 0], wins[2, 3], wins[3, 2], wins[3, 4], wins[4, 3] = 3, 1, 5, 5, 9, 1
    fitted = elo(pairs_of(wins), ["p0"])
    assert fitted.component.tolist() == [1, 1, 0, 0, 0], "the largest is numbered 0"
    assert fitted.ratings[0] == 1500.0
    assert fitted.ratings[2:].mean() == pytest.approx(1500.0)
    alone = elo(pairs_of(wins[2:, 2:]))
    np.testing.assert_allclose(fitted.ratings[2:], alone.ratings)
    np.testing.assert_allclose(fitted.errors[2:], alone.errors)


def test_nobody_at_all():
    fitted = elo(pairs_of(np.zeros((0, 0), int)))
    assert fitted.ratings.shape == fitted.errors.shape == (0,)


@pytest.mark.parametrize("number", [2, 129, 301])
@pytest.mark.parametrize("met", ["all", "neighbours", "two groups"])
def test_the_gradient_is_zero_and_the_covariance_the_inverse_of_the_curvature(number, met):
    """Where everybody met, on a chain that conjugate gradients do not solve soon, and on a scale of two parts."""
    skills = np.random.default_rng(number).normal(0.0, 150.0, number)
    wins, order = simulated(skills, 40, number), np.arange(number)
    if met != "all":
        apart = np.abs(order[:, None] - order) > 1 if met == "neighbours" else (order[:, None] < 40) != (order < 40)
        wins[apart] = 0
    fitted = elo(pairs_of(wins))
    theta = fitted.ratings * np.log(10.0) / 400.0
    for component in range(fitted.component.max() + 1):
        theta[fitted.component == component] -= theta[fitted.component == component].mean()
    deals, tau = wins + wins.T, PRIOR * np.log(10.0) / 400.0
    expected = 1.0 / (1.0 + np.exp(theta[None] - theta[:, None]))
    assert np.abs((wins - deals * expected).sum(axis=1) - theta / tau**2).max() < 1e-8
    curvature = deals * expected * (1.0 - expected)
    curvature = np.diag(curvature.sum(axis=1) + 1.0 / tau**2) - curvature
    np.testing.assert_allclose(fitted.covariance @ curvature * tau**2 / PRIOR**2, np.eye(number), atol=1e-9)


def test_elimination_is_for_chains_alone(monkeypatch):
    """Where everybody met, a step takes some products with the curvature, a twentieth of the work."""
    eliminated, solve = [], np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda *given: eliminated.append(1) or solve(*given))
    wins = simulated(np.random.default_rng(0).normal(0.0, 200.0, 300), 2, 0)
    elo(pairs_of(wins))
    assert not eliminated
    elo(pairs_of(np.where(np.abs(np.subtract.outer(np.arange(300), np.arange(300))) == 1, wins, 0)))
    assert eliminated


@pytest.mark.timed
def test_a_thousand_players_take_under_a_second_of_work():
    skills = np.random.default_rng(1).normal(0.0, 200.0, 1000)
    pairs = pairs_of(simulated(skills, 2, 1))  # a million matches: half a million pairs, two deals each
    assert processor_seconds(lambda: elo(pairs), repeats=3) < 1.0


def test_a_thousand_players_are_told_apart():
    skills = np.random.default_rng(1).normal(0.0, 200.0, 1000)
    fitted = elo(pairs_of(simulated(skills, 2, 1)))
    assert np.corrcoef(fitted.ratings, skills)[0, 1] > 0.99
