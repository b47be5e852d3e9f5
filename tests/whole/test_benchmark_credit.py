"""The studies of credit rules over tables: their matches are the game's, and their gradients the exact ones."""

import numpy as np
import pytest

from benchmarks.simulations.credit_courses import policy_alone
from benchmarks.simulations.played_matches import GROUP, plays_of
from benchmarks.studies.credit.sighted_critic import CRITIC, drawn_table
from benchmarks.studies.credit.value_heads import learned_values
from games.registry import make_game
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.accuracy import batch_gradient
from league.lab.credit.central import central_evidence
from league.lab.credit.gradient_accuracy import exact_evidence, measure_credit, play_out
from league.lab.credit.matches import BatchPlan
from league.lab.credit.rules import credit_batches, parse_variant
from league.theory.exact.turn_values import turn_values

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


@pytest.mark.thorough
def test_heads_come_near_the_exact_values_of_their_own_sight():
    """In tiny Hanabi a seat does not know the card of the other."""
    game = "tiny_hanabi"
    roles, table, plan = (
        seat_roles(RolesConfig(), make_game(game).spec),
        drawn_table(game, 0),
        BatchPlan(batch=64, group=1, batches=2, learned=2048),
    )
    play = play_out(table, roles, CreditConfig(), plan)
    to_learn = play_out(table, roles, CreditConfig(), plan.to_learn).batches
    exact = {(): [exact_evidence(play, batch) for batch in play.batches]}
    exact[("seats",)] = central_evidence(table, play.scale, play.batches)

    def values(evidence):
        return np.array([value for batch in evidence for one in batch for value in one.values])

    learned = {sees: learned_values(game, roles, to_learn, play.batches, sees, 0) for sees in exact}
    spread = np.std(values(exact[("seats",)]))
    assert np.abs(values(learned[("seats",)]) - values(exact[("seats",)])).mean() < 0.2 * spread
    assert np.abs(values(learned[()]) - values(exact[()])).mean() < 0.2 * spread
    assert np.abs(values(exact[()]) - values(exact[("seats",)])).mean() > 0.4 * spread, "they differ"
    variant = parse_variant(CRITIC, CreditConfig())
    own, sees_all = (
        measure_credit(play, CRITIC, credit_batches(variant, play.batches, learned[sees])).faithful for sees in exact
    )
    assert sees_all.variance < own.variance
