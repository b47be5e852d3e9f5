"""The exact value of every turn, against play counted out match by match and OpenSpiel's own values."""

import numpy as np
import pytest
from open_spiel.python.algorithms.action_value import TreeWalkCalculator
from open_spiel.python.policy import TabularPolicy

from games.aliases import full_name
from games.openspiel.game import load_pyspiel
from league.theory.exact.exploitability import PolicyTable, exact_form, head_to_head, information_positions
from league.theory.exact.states import root_state, state_key
from league.theory.exact.turn_values import turn_values

SMALL = ("kuhn_poker", "kuhn_poker(players=3)", "tiny_hanabi", "small_sheriff")


def random_behaviour(form, seed):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(len(ids))).tolist() for ids in form.legal]


def counted(game, form, behaviour):
    """Return visits by information state and Q by (information state, action's place), by a walk over every history."""
    rows = dict(zip(form.keys, behaviour, strict=True))
    visits, gains = {}, {}

    def walk(state, reach):
        if state.is_terminal():
            return np.array(state.returns())
        if state.is_chance_node():
            return sum(p * walk(state.child(a), reach * p) for a, p in state.chance_outcomes())
        seat = state.current_player()
        key = (seat, state_key(game, state, seat))
        visits[key] = visits.get(key, 0.0) + reach
        total = 0.0
        for place, (action, p) in enumerate(zip(state.legal_actions(), rows[key], strict=True)):
            returns = walk(state.child(action), reach * p)
            gains[key, place] = gains.get((key, place), 0.0) + reach * returns[seat]
            total = total + p * returns
        return total

    walk(root_state(game), 1.0)
    return visits, {pair: gain / visits[pair[0]] for pair, gain in gains.items()}


@pytest.mark.parametrize("game", [*SMALL, "leduc_poker"])
def test_values_are_those_of_play_counted_out_history_by_history(game):
    game = full_name(game)
    form = exact_form(game)
    behaviour = random_behaviour(form, 1)
    turns = turn_values(form, behaviour)
    visits, gains = counted(game, form, behaviour)
    assert turns.visits.tolist() == pytest.approx([visits[key] for key in form.keys])
    expected = [gains[key, place] for key, ids in zip(form.keys, form.legal, strict=True) for place in range(len(ids))]
    assert turns.action_values.tolist() == pytest.approx(expected)
    assert np.add.reduceat(turns.probabilities * turns.advantages, turns.first[:-1]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("game", SMALL)
def test_the_gradient_is_the_slope_of_the_exact_value(game):
    """Of each seat's expected return, by moving one softmax parameter up and down."""
    form = exact_form(full_name(game))
    behaviour = random_behaviour(form, 2)
    gradient = turn_values(form, behaviour).gradient
    rng, place = np.random.default_rng(3), 0
    for index, row in enumerate(behaviour):
        for action in range(len(row)):
            if rng.random() < 0.3:
                ends = []
                for step in (1e-5, -1e-5):
                    weights = np.array(row) * np.exp(step * (np.arange(len(row)) == action))
                    moved = [*behaviour[:index], (weights / weights.sum()).tolist(), *behaviour[index + 1 :]]
                    ends.append(form.values(moved)[form.keys[index][0]])
                assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient[place + action], abs=1e-7)
        place += len(row)


@pytest.mark.parametrize("game", ["kuhn_poker(players=3)", "leduc_poker"])
def test_openspiels_walk_over_the_tree_gives_the_same_values(game):
    form, rules = exact_form(game), load_pyspiel(game)
    policy = TabularPolicy(rules)
    weights = np.random.default_rng(5).random(policy.action_probability_array.shape) * policy.legal_actions_mask
    policy.action_probability_array[:] = weights / weights.sum(axis=1, keepdims=True)
    walk = TreeWalkCalculator(rules)
    walk.compute_all_states_action_values([policy] * rules.num_players())
    behaviour, visits, action_values = [], [], []
    for key, ids in zip(form.keys, form.legal, strict=True):
        name = information_positions(game)[key].pyspiel_state().information_state_string()
        behaviour.append([policy.policy_for_key(name)[action] for action in ids])
        visits.append(walk.info_state_prob[key[0], name])
        found = walk.weighted_action_values[key[0], name]
        action_values += [found[action][key[0]] / visits[-1] for action in ids]
    turns = turn_values(form, behaviour)
    assert turns.visits.tolist() == pytest.approx(visits)
    assert turns.action_values.tolist() == pytest.approx(action_values)


def test_a_board_games_values_are_those_of_a_walk_over_its_boards():
    form = exact_form("tic_tac_toe")
    behaviour = random_behaviour(form, 4)
    turns = turn_values(form, behaviour)
    table = PolicyTable("tic_tac_toe", dict(zip(form.keys, map(tuple, behaviour), strict=True)))
    assert turns.values[-1] == pytest.approx(head_to_head([table] * 2)[0])
    assert turns.visits[-1] == 1.0
    by_stones = [turns.visits[(turns.seats == seat) & (turns.turns == k)].sum() for k in range(2) for seat in (0, 1)]
    assert by_stones == pytest.approx([1.0] * 4)  # no match is over before the fifth stone


def test_states_that_the_others_never_lead_to_have_no_values():
    form = exact_form("kuhn_poker")
    passes = [[1.0, 0.0] if seat == 0 else [0.5, 0.5] for seat, _ in form.keys]
    turns = turn_values(form, passes)
    unreached = np.array([key in {(1, "0b"), (1, "1b"), (1, "2b")} for key in form.keys])
    assert np.isnan(turns.values[unreached]).all()
    assert not np.isnan(turns.values[~unreached]).any()
    assert (turns.visits[unreached] == 0.0).all()
    assert np.isfinite(turns.gradient).all()


@pytest.mark.parametrize(
    "game", ["leduc_poker", "small_sheriff", "repeated_game(stage_game=matrix_pd(),num_repetitions=4)"]
)
def test_a_turns_number_is_how_many_the_seat_had_before(game):
    """Up to the third turn and beyond, on every history, whatever order the states are numbered in."""
    game = full_name(game)
    form = exact_form(game)
    turns = turn_values(form, random_behaviour(form, 6))
    number = dict(zip(form.keys, turns.turns.tolist(), strict=True))
    deepest = 0

    def walk(state, had):
        nonlocal deepest
        if state.is_terminal():
            return
        if state.is_chance_node():
            for action, _ in state.chance_outcomes():
                walk(state.child(action), had)
            return
        seat = state.current_player()
        assert number[seat, state_key(game, state, seat)] == had.get(seat, 0)
        deepest = max(deepest, had.get(seat, 0))
        for action in state.legal_actions():
            walk(state.child(action), {**had, seat: had.get(seat, 0) + 1})

    walk(root_state(game), {})
    assert deepest >= 2
