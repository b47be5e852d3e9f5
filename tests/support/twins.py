"""Small games beside the same games written for OpenSpiel, as policies and values of both, and by brute force."""

import numpy as np
import pytest
from open_spiel.python.algorithms import best_response, expected_game_score
from open_spiel.python.policy import tabular_policy_from_callable

from games.registry import make_game
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.sequence_form import sequence_form


def random_table(name, seed):
    """Return a policy of a game that plays every action with a random probability."""
    rng = np.random.default_rng(seed)
    form = sequence_form(name)
    rows = {key: tuple(rng.dirichlet(np.ones(len(ids)))) for key, ids in zip(form.keys, form.legal, strict=True)}
    return PolicyTable(name, rows)


def openspiel_rows(game, table):
    """Return a table's rows by the information states of OpenSpiel's game, found by walking both games side by side."""
    rows, stack = {}, [(game.new_initial_state(), make_game(table.game).undealt())]
    while stack:
        state, match = stack.pop()
        if state.is_terminal():
            assert tuple(state.returns()) == match.returns()
            continue
        chance = state.is_chance_node()
        if chance:
            moves = [outcome for outcome, _ in match.chance_outcomes()]
            chances = [p for _, p in match.chance_outcomes()]
            assert [p for _, p in state.chance_outcomes()] == pytest.approx(chances)
        else:
            seat = state.current_player()
            ids = match.legal_ids()
            assert sorted(ids) == state.legal_actions()
            moves = [match.legal_actions()[ids.index(action)] for action in state.legal_actions()]
            row = table.probabilities[seat, match.information_state(seat)]
            rows[state.information_state_string(seat)] = list(zip(sorted(ids), row, strict=True))
        for action, move in zip(state.legal_actions(), moves, strict=True):
            child = match.copy()
            (child.apply_chance if chance else child.apply)(move)
            stack.append((state.child(action), child))
    return rows


def openspiel_values(game, table):
    """Return the information states that OpenSpiel meets, what each seat expects, and what a best response expects."""
    rows = openspiel_rows(game, table)
    policy = tabular_policy_from_callable(
        game, lambda state: dict(rows[state.information_state_string(state.current_player())])
    )
    seats = range(game.num_players())
    expected = expected_game_score.policy_value(game.new_initial_state(), [policy for _ in seats])
    best = [best_response.BestResponsePolicy(game, seat, policy).value(game.new_initial_state()) for seat in seats]
    return len(rows), tuple(expected), tuple(best)


def brute_force(match, table):
    """Return the expected returns by going through every course of a match."""
    if outcomes := match.chance_outcomes():
        branches = [(p, match.copy(), "apply_chance", outcome) for outcome, p in outcomes]
    elif (seat := match.to_act()) is None:
        return np.array(match.returns())
    else:
        row = table.probabilities[seat, match.information_state(seat)]
        order = [label for _, label in sorted(zip(match.legal_ids(), match.legal_actions(), strict=True))]
        branches = [(p, match.copy(), "apply", label) for label, p in zip(order, row, strict=True)]
    total = np.zeros(match.spec.seats)
    for probability, child, move, label in branches:
        getattr(child, move)(label)
        total += probability * brute_force(child, table)
    return total
