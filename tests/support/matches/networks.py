"""Policies that other libraries train on Kuhn poker, measured by OpenSpiel's own algorithms."""

import numpy as np
import pyspiel
from open_spiel.python import policy
from open_spiel.python.algorithms import expected_game_score

KUHN = pyspiel.load_game("kuhn_poker")
UNIFORM = policy.TabularPolicy(KUHN)
FIRST_SEAT_AGAINST_UNIFORM = 1 / 2  # chips a match, of its best response
BEST_AGAINST_UNIFORM = 11 / 24  # chips a match, both seats alike: half of uniform play's NashConv


def tabular(probabilities):
    """Return a policy as a table; ``probabilities`` maps (seat, observation [F], mask [A]) to those of actions [A]."""

    def of(state):
        seat = state.current_player()
        mask = np.array(state.legal_actions_mask(seat), dtype=np.int8)
        row = probabilities(seat, np.array(state.information_state_tensor(seat), dtype=np.float32), mask)
        return {action: float(row[action]) for action in state.legal_actions()}

    return policy.tabular_policy_from_callable(KUHN, of)


def return_against_uniform(table):
    """Return the expected return of a policy against uniform play, in chips, the mean of both seats."""
    pairs = ([table, UNIFORM], [UNIFORM, table])
    values = [expected_game_score.policy_value(KUHN.new_initial_state(), pair) for pair in pairs]
    return (values[0][0] + values[1][1]) / 2


def first_seat_return(table):
    """Return the first seat's expected return against uniform play, in chips."""
    return expected_game_score.policy_value(KUHN.new_initial_state(), [table, UNIFORM])[0]
