"""The studies of credit rules over tables: their matches are the game's, and their gradients the exact ones."""

import numpy as np
import pytest

from benchmarks.simulations.credit_courses import policy_alone
from benchmarks.simulations.played_matches import GROUP, plays_of
from league.credit.accuracy import batch_gradient
from league.exact.turn_values import turn_values

MATCHES = 2000


@pytest.fixture(scope="module")
def played():
    plays = plays_of("repeated_kuhn_poker(hands=2)")
    rows = [[1.0 / len(ids)] * len(ids) for ids in plays.form.legal]
    return plays, rows, plays.draw(rows, MATCHES, np.random.default_rng(0))


def test_played_matches_pay_what_the_game_pays_and_when(played):
    plays, rows, batch = played
    for trajectory in batch.trajectories:
        assert sum(trajectory.rewards) == pytest.approx(trajectory.match_return if trajectory.turns else 0.0)
    assert any(any(trajectory.rewards[:-1]) for trajectory in batch.trajectories)
    returns = np.array([t.match_return * plays.scale for t in batch.trajectories if t.seat == 0])
    expected = plays.form.values(rows)[0]
    assert abs(returns.mean() - expected) < 4 * returns.std() / MATCHES**0.5
    counts = np.unique([t.deal_seed for t in batch.trajectories if t.seat == 0], return_counts=True)[1]
    assert (counts == GROUP).all()


def test_exact_advantages_of_played_matches_give_the_exact_gradient(played):
    plays, rows, batch = played
    exact = turn_values(plays.form, rows)
    found = batch_gradient(policy_alone(plays.form, rows), batch, exact.advantages[batch.actions])
    cosine = found @ exact.gradient / np.linalg.norm(found) / np.linalg.norm(exact.gradient)
    assert cosine > 0.95
