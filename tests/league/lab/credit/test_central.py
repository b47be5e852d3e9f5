"""What all seats know together, against OpenSpiel's expected returns from the very history."""

import numpy as np
import pyspiel
import pytest

from league.lab.credit.central import joint_values
from league.theory.exact.exploitability import PolicyTable, exact_form, uniform_table
from league.theory.exact.turn_values import turn_values

GAME = pyspiel.load_game("kuhn_poker")


def histories(state):
    if state.is_terminal():
        return
    if not state.is_chance_node():
        yield state
    for action in state.legal_actions():
        yield from histories(state.child(action))


def test_in_kuhn_poker_the_value_is_that_of_the_history():
    values = joint_values(uniform_table("kuhn_poker"))
    every = list(histories(GAME.new_initial_state()))
    assert len(values) == len(every) == 24
    for state in every:
        known = tuple(state.information_state_string(seat) for seat in range(2))
        expected = pyspiel.expected_returns(state, pyspiel.UniformRandomPolicy(GAME), -1, True)
        assert values[state.current_player(), known].tolist() == pytest.approx(list(expected)), str(state)


def test_their_mean_over_what_a_seat_cannot_see_is_the_seats_own_value():
    """Weighted by the chance of each history: what a critic of all seats knows beyond a seat's own averages out."""
    form, rng = exact_form("leduc_poker"), np.random.default_rng(0)
    behaviour = [rng.dirichlet(np.ones(len(ids))).tolist() for ids in form.legal]
    own = turn_values(form, behaviour)
    values = joint_values(PolicyTable("leduc_poker", dict(zip(form.keys, behaviour, strict=True))))
    reach = joint_reach(form, behaviour)
    sums, totals = {}, {}
    for (seat, known), value in values.items():
        key, weight = (seat, known[seat]), reach[seat, known]
        sums[key] = sums.get(key, 0.0) + weight * value[seat]
        totals[key] = totals.get(key, 0.0) + weight
    found = [sums[key] / totals[key] for key in form.keys]
    assert found == pytest.approx(own.values.tolist())
    assert [totals[key] for key in form.keys] == pytest.approx(own.visits.tolist())


def joint_reach(form, behaviour):
    rows, found = dict(zip(form.keys, behaviour, strict=True)), {}

    def visit(state, chance):
        if state.is_terminal():
            return
        if state.is_chance_node():
            following = state.chance_outcomes()
        else:
            known = tuple(state.information_state_string(seat) for seat in range(2))
            key = state.current_player(), known
            found[key] = found.get(key, 0.0) + chance
            following = zip(state.legal_actions(), rows[key[0], known[key[0]]], strict=True)
        for action, p in following:
            visit(state.child(action), chance * p)

    visit(pyspiel.load_game("leduc_poker").new_initial_state(), 1.0)
    return found
