"""Regret grows as theory says against losses made for it, and the snapshots' regret is the mixture's NashConv."""

import numpy as np
import pytest
from support.learning.loss_sequences import alternating_losses, coin_losses, follow_the_leader, hedge

from games.registry import make_game
from league.population.evaluation.regret import external_regret, regret_growth, swap_regret
from league.theory.exact.exploitability import PolicyTable, mixture, nash_conv, uniform_table
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.regret import snapshot_regrets
from league.theory.exact.sequence_form import sequence_form

ROUNDS = 4096


def growth(learner, sequences, measure=external_regret):
    return regret_growth(np.stack([measure(learner(losses), -losses) for losses in sequences])).exponent


def test_following_the_leader_loses_every_round_to_alternating_losses():
    losses = alternating_losses(ROUNDS)
    regret = external_regret(follow_the_leader(losses), -losses)
    assert regret[-1] == pytest.approx(ROUNDS / 2, abs=1.0)  # it loses each round, each alternative half of them
    assert growth(follow_the_leader, [losses]).mean == pytest.approx(1.0, abs=0.05)


def test_hedge_grows_by_the_root_against_alternating_losses():
    losses = alternating_losses(ROUNDS)
    regret = external_regret(hedge(losses), -losses)
    assert (regret <= 2 * np.sqrt(np.arange(1, ROUNDS + 1) * np.log(2)) + 1).all()  # the bound of theorem 2.3
    assert growth(hedge, [losses]).mean == pytest.approx(0.5, abs=0.05)


def test_hedge_grows_by_the_root_against_coins_and_the_interval_says_so():
    exponent = growth(hedge, [coin_losses(1024, 2, seed) for seed in range(200)])
    assert exponent.mean == pytest.approx(0.5, abs=0.05)
    assert exponent.low <= 0.5 <= exponent.high


def test_against_coins_the_regret_is_the_range_of_a_random_walk():
    """E max(X, Y) − T/2 of two coins' sums is sqrt(T / (4 π)), whoever plays."""
    finals = []
    for seed in range(400):
        losses = coin_losses(1024, 2, seed)
        finals.append(external_regret(follow_the_leader(losses), -losses)[-1])
    assert np.mean(finals) == pytest.approx(np.sqrt(1024 / (4 * np.pi)), abs=4 * np.std(finals) / 20)


def test_swap_regret_of_the_leaders_follower_is_both_alternatives():
    """Each alternative loses whenever it is played, so swapping gains in nearly every round: twice the external."""
    losses = alternating_losses(512)
    assert swap_regret(follow_the_leader(losses), -losses)[-1] == pytest.approx(511, abs=1.0)
    assert growth(follow_the_leader, [losses], swap_regret).mean == pytest.approx(1.0, abs=0.05)


def test_the_snapshots_regret_is_the_nash_conv_of_their_mixture():
    form, rng = sequence_form("kuhn_poker"), np.random.default_rng(0)
    tables = [PolicyTable("kuhn_poker", {key: tuple(rng.dirichlet(np.ones(2))) for key in form.keys}) for _ in range(5)]
    regrets = snapshot_regrets(form, tables)
    assert sum(regrets) == pytest.approx(nash_conv(mixture(tables, [1.0] * 5)))
    assert sum(snapshot_regrets(form, [uniform_table("kuhn_poker")])) == pytest.approx(11 / 12)


def test_who_always_plays_the_equilibrium_regrets_nothing():
    equilibrium = nash_equilibrium(make_game("kuhn_poker").spec)
    assert snapshot_regrets(sequence_form("kuhn_poker"), [equilibrium] * 3) == pytest.approx((0.0, 0.0), abs=1e-9)
