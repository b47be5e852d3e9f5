"""Credit turn by turn: measures by hand, and what exact values of the whole position leave of it."""

import math

import numpy as np
import pytest

from games.registry import make_game
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.fidelity import Fidelity, fidelity
from league.lab.credit.gradient_accuracy import compare_rules
from league.lab.credit.matches import BatchPlan
from league.theory.exact.exploitability import PolicyTable, exact_form, uniform_table

OWN, CENTRAL = "gae_turn:trace_decay=0", "gae_turn:trace_decay=0@central"


def compare(table, *rows, **draw):
    roles = seat_roles(RolesConfig(), make_game(table.game).spec)
    found, _ = compare_rules(table, roles, CreditConfig(), BatchPlan(**draw), rows)
    return {rule.rule: rule for rule in found}


def test_the_measures_of_four_turns_by_hand():
    """Action 0 was met with credit 1 and 3, action 5 with 2 and 2: squares of 1 and 1 over 4 - 2 turns."""
    found = fidelity(np.array([1.0, 2.0, 3.0, 2.0]), np.array([1.0, 0.0, 1.0, -1.0]), np.array([0, 5, 0, 5]))
    assert found.fidelity == pytest.approx((1 + 3 - 2) / math.sqrt(18 * 3))
    assert found.variance == pytest.approx(1.0)
    assert fidelity(np.zeros(2), np.ones(2), np.array([0, 1])) == Fidelity(None, None)


def test_where_nothing_is_left_to_chance_a_critic_of_all_seats_leaves_no_variance():
    """Kuhn poker played without a coin: whoever sees both cards knows the end, and whoever sees one does not."""
    form = exact_form("kuhn_poker")
    rng = np.random.default_rng(3)
    table = PolicyTable("kuhn_poker", {key: tuple(np.eye(2)[rng.integers(2)]) for key in form.keys})
    found = compare(table, "reinforce", OWN, CENTRAL, batch=64, batches=2)
    assert found[CENTRAL].faithful.variance == pytest.approx(0.0, abs=1e-20)
    assert found[OWN].faithful.variance > 0.1
    assert found["reinforce"].faithful.variance > 0.1


def test_the_exact_advantage_is_faithful_and_never_varies():
    faithful = compare(uniform_table("kuhn_poker"), "rae", batch=64, batches=2)["exact"].faithful
    assert faithful.fidelity == pytest.approx(1.0)
    assert faithful.variance == pytest.approx(0.0, abs=1e-20)


def test_a_critic_of_all_seats_is_no_more_biased_than_the_seats_own():
    found = compare(uniform_table("kuhn_poker"), OWN, CENTRAL, batch=256, batches=5)
    assert found[CENTRAL].overall.bias.low < 0.1
    assert found[CENTRAL].given_values
    assert found[CENTRAL].faithful.variance < found[OWN].faithful.variance
    assert found[CENTRAL].faithful.fidelity > found[OWN].faithful.fidelity


def test_on_a_board_that_all_seats_see_both_critics_say_the_same():
    found = compare(uniform_table("hex(board_size=2)"), OWN, CENTRAL, batch=32, batches=2)
    assert found[CENTRAL].faithful == found[OWN].faithful


def test_a_relay_can_be_counted_out():
    """Uniform play of three seats is right once in five sums; two terms of 0 to 2."""
    form = exact_form("relay_arithmetic")
    table = uniform_table("relay_arithmetic")
    assert form.values([table.probabilities[key] for key in form.keys]) == pytest.approx((0.2, 0.2, 0.2))
    assert form.chance.sum() == pytest.approx(5 * 3 * 5)  # every deal has as many ends
