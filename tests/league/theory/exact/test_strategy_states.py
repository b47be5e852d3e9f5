"""What is shown of a strategy: Kuhn's family of equilibria, and elsewhere the states where most is lost."""

import numpy as np
import pytest

from games.registry import make_game
from league.theory.exact.exploitability import PolicyTable, best_response_values, exact_form, nash_conv, uniform_table
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.regret import visit_regrets
from league.theory.exact.strategy_states import NAMED, distance_to_kuhn_equilibria, shown_states

KUHN = make_game("kuhn_poker").spec


def kuhn_equilibrium(alpha):
    """Return Kuhn's equilibrium of a parameter (Kuhn 1950)."""
    bets = {(0, "0"): alpha, (0, "1"): 0.0, (0, "2"): 3 * alpha}
    bets |= {(0, "0pb"): 0.0, (0, "1pb"): alpha + 1 / 3, (0, "2pb"): 1.0}
    bets |= {(1, "0p"): 1 / 3, (1, "1p"): 0.0, (1, "2p"): 1.0, (1, "0b"): 0.0, (1, "1b"): 1 / 3, (1, "2b"): 1.0}
    return PolicyTable("kuhn_poker", {key: (1 - bet, bet) for key, bet in bets.items()})


def in_bands(table):
    return [
        action.low - 1e-9 <= table.probabilities[state.key][action.action_index] <= action.high + 1e-9
        for state in NAMED["kuhn_poker"]
        for action in state.actions
    ]


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_every_equilibrium_of_the_family_is_one_and_lies_in_the_bands(alpha):
    table = kuhn_equilibrium(alpha)
    assert nash_conv(table) == pytest.approx(0.0, abs=1e-12)
    assert all(in_bands(table))
    assert distance_to_kuhn_equilibria(table) == pytest.approx(0.0, abs=4e-4)  # of 1,000 steps


def test_the_bands_end_where_the_family_does():
    """Beyond 1/3 the king would be bet with more than 1: at the ends of α the bounds are reached."""
    ends = [kuhn_equilibrium(alpha) for alpha in (0.0, 1 / 3)]
    for state in NAMED["kuhn_poker"]:
        (action,) = state.actions
        reached = {round(table.probabilities[state.key][action.action_index], 9) for table in ends}
        assert reached == {round(action.low, 9), round(action.high, 9)}


def test_uniform_play_is_half_a_bet_away():
    """It calls with the jack, which no equilibrium does, every other time."""
    assert distance_to_kuhn_equilibria(uniform_table("kuhn_poker")) == pytest.approx(0.5)
    assert not all(in_bands(uniform_table("kuhn_poker")))


def test_probabilities_that_are_each_in_a_band_need_not_be_one_equilibrium():
    """The jack as with α = 0, the king as with α = 1/3: the nearest is α = 1/4, which is 1/4 from both."""
    table = kuhn_equilibrium(0.0)
    mixed = PolicyTable("kuhn_poker", {**table.probabilities, (0, "2"): (0.0, 1.0)})
    assert all(in_bands(mixed))
    assert distance_to_kuhn_equilibria(mixed) == pytest.approx(0.25, abs=1e-3)
    assert nash_conv(mixed) > 0.0


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "matrix_rps"])
def test_the_linear_program_gives_an_equilibrium(game):
    assert nash_conv(nash_equilibrium(make_game(game).spec)) == pytest.approx(0.0, abs=1e-6)


def test_a_game_that_is_not_zero_sum_has_no_line():
    assert nash_equilibrium(make_game("tiny_hanabi").spec) is None


def test_nothing_is_lost_in_an_equilibrium():
    form = exact_form("kuhn_poker")
    assert visit_regrets(form, kuhn_equilibrium(0.2)) == pytest.approx(np.zeros(12), abs=1e-12)


def test_where_a_seat_decides_once_visit_times_regret_is_what_a_best_response_gains():
    """Matching pennies with 3/4 heads on both sides: the second seat gains by tails."""
    form = exact_form("matrix_mp")
    table = PolicyTable("matrix_mp", dict.fromkeys(form.keys, (0.75, 0.25)))
    values = form.values([table.probabilities[key] for key in form.keys])
    gains = np.array(best_response_values(table)) - values
    assert sorted(visit_regrets(form, table)) == pytest.approx(sorted(gains))


def test_a_later_decision_counts_as_often_as_the_seats_own_moves_lead_there():
    """Uniform Kuhn poker: the first seat has each card with 1/3, passes with 1/2, and is bet at with 1/2.

    To call with the jack loses 2 where a fold loses 1, so half of the time it throws away 1; the queen wins or loses 2
    as often, which is 1 better than a fold; the king wins 2, 3 better.
    """
    form = exact_form("kuhn_poker")
    regrets = dict(zip(form.keys, visit_regrets(form, uniform_table("kuhn_poker")).tolist(), strict=True))
    visit = 1 / 3 * 1 / 2 * 1 / 2
    assert regrets[0, "0pb"] == pytest.approx(visit * 1 / 2)
    assert regrets[0, "1pb"] == pytest.approx(visit * 1 / 2)
    assert regrets[0, "2pb"] == pytest.approx(visit * 3 / 2)


def test_a_mistake_at_one_state_is_found_there():
    """Folding the king to a bet gives up 3 chips (−1 for +2) as often as it is met: K with a pass, then a bet."""
    table = kuhn_equilibrium(0.0)
    wrong = PolicyTable("kuhn_poker", {**table.probabilities, (1, "2b"): (1.0, 0.0)})
    shifted = PolicyTable("kuhn_poker", {**wrong.probabilities, (0, "0"): (0.0, 1.0)})  # so that there is a bet
    form = exact_form("kuhn_poker")
    regrets = dict(zip(form.keys, visit_regrets(form, shifted), strict=True))
    assert regrets[1, "2b"] == pytest.approx(1 / 6 * 3.0)  # jack against king in one deal of six


def test_elsewhere_the_heaviest_states_are_shown_with_an_equilibrium():
    spec = make_game("leduc_poker").spec
    form = exact_form(spec.name)
    weights = np.zeros(len(form.keys))
    weights[[7, 500, 30]] = 3.0, 2.0, 1.0
    states = shown_states(spec, ("first", "second"), weights)
    assert {form.keys[i] for i in (7, 500, 30)} <= {state.key for state in states}
    for state in states:
        assert all(0.0 <= action.low == action.high <= 1.0 for action in state.actions)
    assert len({state.name for state in states}) == len(states) == 6
