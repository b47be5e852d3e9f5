"""Goofspiel with hidden bids has OpenSpiel's states and OpenSpiel's exploitability."""

import numpy as np
import pytest
from open_spiel.python import policy as openspiel_policy
from open_spiel.python.algorithms.exploitability import exploitability as exploitability_by_openspiel

from games.openspiel.game import load_pyspiel
from league.theory.exact import exploitability as exact
from league.theory.public.goofspiel import Goofspiel, exploitability, goofspiel_of, mixture, read_policy, value


def game_of(cards, order="descending"):
    return goofspiel_of(f"goofspiel(imp_info=True,num_cards={cards},points_order={order})")


def drawn(game, seed):
    """Return a random policy of each seat, read as a player's is, and OpenSpiel's table of it."""
    rng = np.random.default_rng(seed)
    table = openspiel_policy.TabularPolicy(load_pyspiel(game.name))
    rows = {}

    def answer(positions):
        for seat, match in positions:
            assert match.to_act() == seat
            key = match.pyspiel_state().information_state_string(seat)
            assert (seat, key) not in rows, "asked once"
            rows[seat, key] = rng.dirichlet(np.full(len(match.legal_ids()), 0.5))
            table.policy_for_key(key)[:] = 0.0
            table.policy_for_key(key)[list(match.legal_ids())] = rows[seat, key]
        return [rows[seat, match.pyspiel_state().information_state_string(seat)] for seat, match in positions]

    policies = tuple(read_policy(game, seat, answer) for seat in (0, 1))
    assert len(rows) == game.information_states
    return policies, table


@pytest.mark.parametrize(("cards", "order"), [(2, "descending"), (3, "ascending"), (4, "descending")])
def test_a_uniform_policy_is_as_exploitable_as_openspiel_says(cards, order):
    game = game_of(cards, order)
    loaded = load_pyspiel(game.name)
    expected = exploitability_by_openspiel(loaded, openspiel_policy.UniformRandomPolicy(loaded))
    assert exploitability(game, (game.uniform(), game.uniform())) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_drawn_policy_is_as_exploitable_as_openspiel_says(seed):
    game = game_of(3, ("ascending", "descending")[seed % 2])
    policies, table = drawn(game, seed)
    expected = exploitability_by_openspiel(load_pyspiel(game.name), table)
    assert exploitability(game, policies) == pytest.approx(expected, abs=1e-9)
    assert value(game, policies[1], policies[0]) == pytest.approx(-value(game, policies[0], policies[1]), abs=1e-12)


def test_a_mixture_is_the_tables_mixture():
    game = game_of(3)
    tables, members = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        uniform = exact.uniform_table(game.name)
        rows = {key: tuple(rng.dirichlet(np.full(len(row), 0.4))) for key, row in uniform.probabilities.items()}
        tables.append(exact.PolicyTable(game.name, rows))
        answers = lambda asked, rows=rows: [rows[seat, match.information_state(seat)] for seat, match in asked]  # noqa: E731
        members.append([read_policy(game, seat, answers) for seat in (0, 1)])
    weights = [0.2, 0.5, 0.3]
    policies = tuple(mixture(game, [(m[seat], w) for m, w in zip(members, weights, strict=True)]) for seat in (0, 1))
    expected = exact.exploitability(exact.mixture(tables, weights))
    assert exploitability(game, policies) == pytest.approx(expected, abs=1e-12)


def test_games_that_are_others():
    for given in ("imp_info=False", "imp_info=True,points_order=random", "imp_info=True,num_cards=9"):
        given = given if "points_order" in given else f"{given},points_order=descending"
        assert goofspiel_of(f"goofspiel({'num_cards=4,' if 'num_cards' not in given else ''}{given})") is None
    assert goofspiel_of("kuhn_poker") is None
    assert game_of(5) == Goofspiel(5, (5, 4, 3, 2, 1))
