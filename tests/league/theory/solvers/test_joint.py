"""Correlated equilibria against hand-derived ones, an independent optimiser, and the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from support.matches.normal_form import matching_pennies

from games.common.errors import UsageError
from league.theory.meta_solvers import JOINT_SOLVERS
from league.theory.solvers import (
    EmpiricalGame,
    correlated_equilibrium,
    gaps,
    mecce,
    mece,
    mgcce,
    mgce,
    symmetric_game,
)
from league.theory.solvers.max_entropy import max_entropy

CHICKEN = symmetric_game(np.array([[0.0, 7.0], [2.0, 6.0]]))  # dare, chicken (Aumann 1974)
ROCK_PAPER_SCISSORS = symmetric_game(np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]))
CORRELATED = {"mgce": ("ce", "gini"), "mgcce": ("cce", "gini"), "mece": ("ce", "entropy"), "mecce": ("cce", "entropy")}


def random_game(seed: int) -> EmpiricalGame:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 4, size=generator.integers(2, 4))
    return EmpiricalGame(generator.normal(size=(len(sizes), *sizes)))


def gains_counted_out(game: EmpiricalGame, joint: np.ndarray, concept: str) -> list[float]:
    """Return each player's best gain by trying every map from recommendations to strategies, or every constant one."""
    best = []
    for player, size in enumerate(game.sizes):
        maps = [(to,) * size for to in range(size)]
        if concept == "ce":
            maps = list(itertools.product(range(size), repeat=size))
        gains = []
        for to in maps:
            gain = 0.0
            for profile in np.ndindex(*game.sizes):
                other = list(profile)
                other[player] = to[profile[player]]
                gain += joint[profile] * (game.values[player][tuple(other)] - game.values[player][profile])
            gains.append(gain)
        best.append(max(max(gains), 0.0))
    return best


@pytest.mark.parametrize("solver", [mgce, mgcce])
def test_chicken_at_maximum_gini(solver) -> None:
    """σ = (a, b; b, c). Daring when dare is recommended: 2 a <= b, which binds: a = b / 2, 2.5 b + c = 1. Then
    d/db (2.25 b² + (1 - 2.5 b)²) = 0 at b = 5 / 17. Two strategies each: CE and CCE are the same.
    """
    np.testing.assert_allclose(solver(CHICKEN), np.array([[5, 10], [10, 9]]) / 34, atol=1e-6)


@pytest.mark.parametrize("solver", [mece, mecce])
def test_chicken_at_maximum_entropy(solver) -> None:
    """The same constraint binds; -½ ln a - 2 ln b + 2.5 ln c = 0 with a = b / 2 gives c = b 2^(-1/5)."""
    b = 1.0 / (2.5 + 2.0**-0.2)
    np.testing.assert_allclose(solver(CHICKEN), [[b / 2, b], [b, b * 2.0**-0.2]], atol=1e-5)


@pytest.mark.parametrize("name", CORRELATED)
@pytest.mark.parametrize("game", [ROCK_PAPER_SCISSORS, matching_pennies()], ids=["scissors", "pennies"])
def test_where_uniform_play_is_an_equilibrium_it_is_the_flattest(name: str, game: EmpiricalGame) -> None:
    np.testing.assert_allclose(JOINT_SOLVERS[name].make(game), 1.0 / np.prod(game.sizes), atol=1e-6)


@pytest.mark.parametrize("name", CORRELATED)
def test_a_prisoners_dilemma_has_one_equilibrium(name: str) -> None:
    dilemma = symmetric_game(np.array([[3.0, 0.0], [5.0, 1.0]]))
    np.testing.assert_allclose(JOINT_SOLVERS[name].make(dilemma), [[0.0, 0.0], [0.0, 1.0]], atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from(sorted(CORRELATED)))
def test_nobody_gains_by_any_deviation(seed: int, name: str) -> None:
    game = random_game(seed)
    joint = JOINT_SOLVERS[name].make(game)
    assert joint.shape == game.sizes
    assert joint.min() >= 0.0
    assert joint.sum() == pytest.approx(1.0)
    assert max(gains_counted_out(game, joint, CORRELATED[name][0])) < 1e-5


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from(["ce", "cce"]))
def test_gaps_are_the_best_of_all_deviations_counted_out(seed: int, concept: str) -> None:
    game = random_game(seed)
    joint = np.random.default_rng(seed).dirichlet(np.ones(int(np.prod(game.sizes)))).reshape(game.sizes)
    np.testing.assert_allclose(gaps(game, joint, concept), gains_counted_out(game, joint, concept), atol=1e-12)


def deviations(game: EmpiricalGame, concept: str) -> np.ndarray:
    """Return what each deviation gains [K, profiles], written out by loops over profiles."""
    rows = []
    for player, size in enumerate(game.sizes):
        for recommended in range(size) if concept == "ce" else [None]:
            for played in range(size):
                row = np.zeros(game.sizes)
                for profile in np.ndindex(*game.sizes):
                    other = list(profile)
                    other[player] = played
                    if recommended in (None, profile[player]):
                        row[profile] = game.values[player][tuple(other)] - game.values[player][profile]
                rows.append(row.ravel())
    return np.array(rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CORRELATED)
def test_duality_proves_that_nothing_is_flatter(seed: int, name: str) -> None:
    """Whatever prices λ >= 0 deviations have, the Lagrange dual bounds the criterion of every equilibrium.

    Entropy: H(x) <= ln Σ exp(-(G' λ)). Squares: Σ x² / 2 >= ν - Σ max(ν - G' λ, 0)² / 2. Prices that SciPy
    finds on its own bring the bound to the solver's answer: no equilibrium is flatter by more.
    """
    game = EmpiricalGame(np.random.default_rng(seed).normal(size=(3, 2, 3, 2)))
    concept, criterion = CORRELATED[name]
    gains = deviations(game, concept)
    ours = JOINT_SOLVERS[name].make(game).ravel()

    def entropy_bound(prices: np.ndarray) -> float:
        return float(logsumexp(-(gains.T @ prices)))

    def squares_bound(prices: np.ndarray) -> float:
        return float((np.maximum(prices[-1] - gains.T @ prices[:-1], 0.0) ** 2).sum() / 2.0 - prices[-1])

    bound, extra = (entropy_bound, 0) if criterion == "entropy" else (squares_bound, 1)
    limits = [(0.0, None)] * len(gains) + [(None, None)] * extra
    options = {"maxiter": 5000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    solution = minimize(bound, np.full(len(limits), 0.1), bounds=limits, method="L-BFGS-B", options=options)
    used = ours[ours > 0.0]
    flat = -float(used @ np.log(used)) if criterion == "entropy" else -float(ours @ ours) / 2.0
    assert flat <= solution.fun + 1e-6
    assert flat == pytest.approx(solution.fun, abs=2e-4)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_each_is_flattest_in_its_own_sense_and_coarse_ones_are_flatter(seed: int) -> None:
    game = random_game(seed)
    joint = {name: JOINT_SOLVERS[name].make(game) for name in CORRELATED}
    squares = {name: float((x**2).sum()) for name, x in joint.items()}
    entropy = {name: -float((x * np.log(np.maximum(x, 1e-300))).sum()) for name, x in joint.items()}
    assert squares["mgce"] <= squares["mece"] + 1e-5
    assert squares["mgcce"] <= min(squares["mgce"], squares["mecce"]) + 1e-5
    assert entropy["mece"] >= entropy["mgce"] - 1e-4
    assert entropy["mecce"] >= max(entropy["mece"], entropy["mgcce"]) - 1e-4


def test_slack_lets_a_flatter_distribution_stand() -> None:
    """In chicken the uniform distribution loses 2/4 - 1/4 = 1/4 by daring when it should; with that slack it stands."""
    assert gaps(CHICKEN, np.full((2, 2), 0.25), "ce") == pytest.approx([0.25, 0.25])
    np.testing.assert_allclose(correlated_equilibrium(CHICKEN, "ce", "gini", slack=0.25), 0.25, atol=1e-6)


def test_units_and_players_constants_do_not_matter() -> None:
    shifted = EmpiricalGame(CHICKEN.values * 1e4 + np.array([3e4, -7e4]).reshape(2, 1, 1))
    np.testing.assert_allclose(mgce(shifted), mgce(CHICKEN), atol=1e-6)


def test_missing_profiles_are_refused_unless_told_what_stands_for_them() -> None:
    values = CHICKEN.values.copy()
    values[:, 0, 0] = np.nan
    with pytest.raises(UsageError, match="1 of 4 profiles were never played"):
        mgce(EmpiricalGame(values))
    filled = correlated_equilibrium(EmpiricalGame(values), "ce", "gini", missing="zero")
    np.testing.assert_allclose(filled, mgce(CHICKEN), atol=1e-6)  # dare against dare pays 0 in truth
    assert EmpiricalGame(values).filled("mean")[:, 0, 0] == pytest.approx([5.0, 5.0])  # of 7, 2 and 6
    with pytest.raises(UsageError, match="known payoff"):
        EmpiricalGame(np.full((2, 2, 2), np.nan)).filled("mean")


def test_a_draw_varies_by_the_standard_errors() -> None:
    errors = np.zeros((2, 2, 2))
    errors[0, 1, 1] = 0.5
    game, generator = EmpiricalGame(CHICKEN.values, errors), np.random.default_rng(0)
    draws = np.array([game.draw(generator).values for _ in range(2000)])
    np.testing.assert_allclose(draws.mean(axis=0), CHICKEN.values, atol=0.05)
    np.testing.assert_allclose(draws.std(axis=0), errors, atol=0.05)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[P, n_1, …, n_P\]"):
        EmpiricalGame(np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match="standard errors of shape"):
        EmpiricalGame(np.zeros((2, 2, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="standard error for every"):
        EmpiricalGame(np.zeros((2, 2, 2)), np.full((2, 2, 2), np.nan))
    with pytest.raises(ValueError, match="finite payoffs"):
        EmpiricalGame(np.full((2, 2, 2), np.inf))


def test_constraints_that_no_distribution_meets_are_an_error() -> None:
    with pytest.raises(ArithmeticError, match="no distribution over 2"):
        max_entropy(np.array([[1.0, 1.0]]), np.array([0.5]), "gini")
