"""Regret against Blum and Mansour's definitions, and against the equilibrium gaps that it must equal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.meta_solvers import EmpiricalGame, gaps
from league.regret import external_regret, swap_regret


def random_rounds(rounds: int, alternatives: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(alternatives), rounds), generator.normal(size=(rounds, alternatives))


def test_a_worked_example() -> None:
    """Left, left, right, where right, left and left would have paid 1: left has 2 in the end, right 1, the player 1."""
    plays = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    payoffs = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(external_regret(plays, payoffs), [1.0, 0.0, 1.0])
    np.testing.assert_allclose(swap_regret(plays, payoffs), [1.0, 0.0, 1.0])


def test_swapping_can_gain_where_no_fixed_alternative_does() -> None:
    """Always the one that does not pay: swapping both gains every round, either one alone half of them."""
    plays = np.tile(np.eye(2), (10, 1))
    payoffs = 1.0 - plays
    assert external_regret(plays, payoffs)[-1] == pytest.approx(10.0)
    assert swap_regret(plays, payoffs)[-1] == pytest.approx(20.0)


def test_external_regret_is_negative_for_who_changes_well() -> None:
    plays = np.tile(np.eye(2), (10, 1))
    assert external_regret(plays, plays)[-1] == pytest.approx(-10.0)
    assert swap_regret(plays, plays)[-1] == 0.0


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 10_000))
def test_regrets_are_the_best_of_all_changes_counted_out(rounds: int, alternatives: int, seed: int) -> None:
    plays, payoffs = random_rounds(rounds, alternatives, seed)
    earned = sum(plays[t] @ payoffs[t] for t in range(rounds))
    fixed = max(sum(payoffs[t, a] for t in range(rounds)) for a in range(alternatives))
    maps = itertools.product(range(alternatives), repeat=alternatives)
    swapped = max(
        sum(plays[t, a] * payoffs[t, to[a]] for t in range(rounds) for a in range(alternatives)) for to in maps
    )
    external, swap = external_regret(plays, payoffs), swap_regret(plays, payoffs)
    assert external[-1] == pytest.approx(fixed - earned)
    assert swap[-1] == pytest.approx(swapped - earned)
    assert (swap >= external - 1e-9).all()
    assert swap.min() >= 0.0


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 30), st.integers(0, 10_000))
def test_mean_regret_is_the_gap_of_the_empirical_play(rounds: int, seed: int) -> None:
    """The frequencies of joint play are an ε-(C)CE with ε the regret a round (Blum and Mansour, section 2)."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(2, 3, 4))
    rows, columns = generator.integers(3, size=rounds), generator.integers(4, size=rounds)
    joint = np.zeros((3, 4))
    np.add.at(joint, (rows, columns), 1.0 / rounds)
    sides = [(np.eye(3)[rows], values[0][:, columns].T), (np.eye(4)[columns], values[1][rows])]
    for player, (plays, payoffs) in enumerate(sides):
        coarse, correlated = (gaps(EmpiricalGame(values), joint, concept)[player] for concept in ("cce", "ce"))
        assert max(external_regret(plays, payoffs)[-1], 0.0) / rounds == pytest.approx(coarse)
        assert swap_regret(plays, payoffs)[-1] / rounds == pytest.approx(correlated)


def test_hedge_keeps_its_bound() -> None:
    """Exponential weights with rate sqrt(8 ln A / T) have external regret of at most sqrt(T ln A / 2) (payoffs in
    [0, 1]; Cesa-Bianchi and Lugosi 2006, theorem 2.2), also against payoffs made to hurt it.
    """
    rounds, alternatives = 500, 4
    rate = np.sqrt(8 * np.log(alternatives) / rounds)
    plays, payoffs, totals = [], [], np.zeros(alternatives)
    for _ in range(rounds):
        weights = np.exp(rate * (totals - totals.max()))
        plays.append(weights / weights.sum())
        payoffs.append((np.arange(alternatives) == plays[-1].argmin()).astype(float))
        totals = totals + payoffs[-1]
    regret = external_regret(np.array(plays), np.array(payoffs))[-1]
    assert 0.0 < regret <= np.sqrt(rounds * np.log(alternatives) / 2)


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        external_regret(np.ones((3, 1)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="distribution"):
        swap_regret(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="finite payoff"):
        swap_regret(np.ones((1, 1)), np.full((1, 1), np.nan))
