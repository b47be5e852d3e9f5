"""Evolutionary solvers against OpenSpiel's, and against chains and games solved by hand."""

from __future__ import annotations

import itertools
import math
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.algorithms.projected_replicator_dynamics import projected_replicator_dynamics as openspiel_prd
from scipy.optimize import minimize
from support.matches.normal_form import matching_pennies

from games.common.errors import UsageError
from league.theory.solvers import (
    EmpiricalGame,
    alpha_rank,
    alpha_rank_mixture,
    alpha_rank_population,
    nash,
    prd,
    projected_replicator_dynamics,
    symmetric_game,
)
from league.theory.solvers.alpha_rank import stationary
from league.theory.solvers.replicator import project

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@pytest.fixture(scope="module")
def openspiel_alpha_rank():
    """OpenSpiel's α-rank; only its visualiser, which is not used here, needs matplotlib."""
    name = "open_spiel.python.egt.alpharank_visualizer"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, types.ModuleType(name))
        from open_spiel.python.egt import alpharank

        yield alpharank


@pytest.mark.parametrize("sizes", [(3, 3), (2, 4), (2, 3, 2)])
def test_prd_is_openspiels(sizes: tuple[int, ...]) -> None:
    values = np.random.default_rng(len(sizes)).normal(size=(len(sizes), *sizes))
    ours = projected_replicator_dynamics(EmpiricalGame(values), steps=300, dt=0.05, gamma=0.02)
    theirs = openspiel_prd(list(values), prd_iterations=300, prd_dt=0.05, prd_gamma=0.02)
    for mixture, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mixture, expected, atol=1e-12)


def test_prd_in_the_population_is_prd_of_both_players() -> None:
    payoffs = np.array([[0.0, 1.0, -0.25], [-1.0, 0.0, 0.5], [0.25, -0.5, 0.0]])
    both = projected_replicator_dynamics(symmetric_game(payoffs), steps=10_000, dt=0.1)
    np.testing.assert_allclose(both, [prd(payoffs)] * 2, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 200.0])
def test_prd_comes_near_the_nash_mixture_whatever_the_units(scale: float) -> None:
    biased = np.array([[0.0, -3.0, 5.0], [3.0, 0.0, -1.0], [-5.0, 1.0, 0.0]])
    np.testing.assert_allclose(prd(scale * biased), np.array([1, 5, 3]) / 9, atol=0.01)
    np.testing.assert_allclose(prd(scale * biased), nash(biased), atol=0.01)


def test_prd_stays_where_nothing_pulls() -> None:
    for mixture in projected_replicator_dynamics(matching_pennies(), steps=50):
        np.testing.assert_allclose(mixture, [0.5, 0.5])
    assert prd(np.full((1, 1), np.nan)) == pytest.approx([1.0])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-2, 2), min_size=1, max_size=5), st.floats(0.0, 0.2))
def test_the_projection_is_the_nearest_point(point: list[float], gamma: float) -> None:
    ours = project(np.array(point), gamma)
    assert ours.sum() == pytest.approx(1.0)
    assert ours.min() >= gamma - 1e-12
    nearest = minimize(
        lambda x: float(((x - point) ** 2).sum()), np.full(len(point), 1 / len(point)), method="SLSQP",
        bounds=[(gamma, 1.0)] * len(point), constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
        options={"ftol": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(ours, nearest.x, atol=1e-5)


def test_a_floor_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gamma <= 1 / 3"):
        projected_replicator_dynamics(symmetric_game(ROCK_PAPER_SCISSORS), steps=1, gamma=0.4)


@pytest.mark.parametrize("alpha", [0.1, 2.0])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 4), (2, 3, 2)])
def test_alpha_rank_is_openspiels(openspiel_alpha_rank, sizes: tuple[int, ...], alpha: float) -> None:
    values = np.random.default_rng(sum(sizes)).normal(size=(len(sizes), *sizes))
    *_, theirs, _, _ = openspiel_alpha_rank.compute(list(values), m=10, alpha=alpha)
    ours = alpha_rank(EmpiricalGame(values), alpha=alpha, m=10)
    np.testing.assert_allclose(ours.ravel(), theirs, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_alpha_rank_of_one_population_is_openspiels(openspiel_alpha_rank, alpha: float) -> None:
    payoffs = np.random.default_rng(5).normal(size=(5, 5))
    for game in (payoffs, payoffs - payoffs.T):  # OpenSpiel takes a closed form for the second
        model = {"m": 12, "alpha": alpha, "use_local_selection_model": False}
        *_, theirs, _, _ = openspiel_alpha_rank.compute([game], **model)
        np.testing.assert_allclose(alpha_rank_population(game, alpha=alpha, m=12), theirs, atol=1e-9)


def test_infinite_alpha_is_openspiels(openspiel_alpha_rank) -> None:
    values = np.random.default_rng(9).normal(size=(2, 4, 3))
    infinite = {"m": 50, "alpha": 1.0, "use_inf_alpha": True, "inf_alpha_eps": 0.01}
    *_, theirs, _, _ = openspiel_alpha_rank.compute(list(values), **infinite)
    np.testing.assert_allclose(alpha_rank(EmpiricalGame(values), epsilon=0.01).ravel(), theirs, atol=1e-9)
    *_, theirs, _, _ = openspiel_alpha_rank.compute([values[0, :3]], **infinite)
    np.testing.assert_allclose(alpha_rank_population(values[0, :3], epsilon=0.01), theirs, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, math.inf])
def test_two_strategies_have_a_closed_form(alpha: float) -> None:
    """Detailed balance of two states: π_better / π_worse = ρ_better / ρ_worse = e^{(m-1) u}; 1 / ε - 1 at α = ∞."""
    m, epsilon = 6, 1e-6
    game = EmpiricalGame(np.array([[[1.0], [1.4]], [[0.0], [0.0]]]))  # the second player has no choice
    worse, better = alpha_rank(game, alpha=alpha, m=m, epsilon=epsilon).ravel()
    ratio = 1.0 / epsilon - 1.0 if math.isinf(alpha) else math.exp((m - 1) * alpha * 0.4)
    assert better / worse == pytest.approx(ratio)


def test_three_player_matching_pennies_walks_a_ring_of_six() -> None:
    """Of the eight profiles two (the first and third alike, the second not) nobody moves to; the rest are a ring."""
    ranks = alpha_rank(matching_pennies())
    for profile in itertools.product(range(2), repeat=3):
        left_alone = profile in {(0, 1, 0), (1, 0, 1)}
        assert ranks[profile] == pytest.approx(0.0 if left_alone else 1 / 6, abs=1e-5)


def test_alpha_rank_spreads_over_a_cycle_and_leaves_what_it_beats() -> None:
    payoffs = np.pad(ROCK_PAPER_SCISSORS * [[1.0, 3.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]], (0, 1))
    payoffs[:3, 3], payoffs[3, :3] = 2.0, -2.0
    np.testing.assert_allclose(alpha_rank_mixture(payoffs), [1 / 3, 1 / 3, 1 / 3, 0.0], atol=1e-5)
    np.testing.assert_allclose(alpha_rank_mixture(np.zeros((4, 4))), 0.25)
    assert alpha_rank_mixture(np.full((1, 1), np.nan)) == pytest.approx([1.0])


def test_unknown_profiles_are_refused() -> None:
    game = symmetric_game(np.array([[0.0, np.nan], [1.0, 0.0]]))
    for solver in (alpha_rank, projected_replicator_dynamics):
        with pytest.raises(UsageError, match="2 of 4 profiles were never played"):
            solver(game)


def test_a_chain_that_underflows_says_so() -> None:
    with pytest.raises(ArithmeticError, match="α = ∞"):
        alpha_rank_population(np.array([[0.0, -1.0], [1.0, 0.0]]), alpha=1e5)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 7), st.integers(0, 10_000))
def test_the_stationary_distribution_is_left_alone_by_the_chain(size: int, seed: int) -> None:
    chain = np.random.default_rng(seed).dirichlet(np.full(size, 0.5), size)
    visits = stationary(chain)
    np.testing.assert_allclose(visits @ chain, visits, atol=1e-12)


def test_the_stationary_distribution_keeps_its_digits() -> None:
    """A walk up with probability 1/2 and down with 1e-9 grows by 5e8 a state: ten states span 78 decades."""
    size = 10
    chain = np.diag(np.full(size - 1, 0.5), 1) + np.diag(np.full(size - 1, 1e-9), -1)
    visits = stationary(chain)
    np.testing.assert_allclose(visits[1:] / visits[:-1], 5e8, rtol=1e-12)
