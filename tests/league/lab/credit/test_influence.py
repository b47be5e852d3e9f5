"""Exact influence: log 3 for a code of three words, and 0 where a message is ignored by construction."""

import math

import numpy as np
import pytest

from games.aliases import full_name
from league.lab.credit.influence import _add_histories, _Moved, exact_influence
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.states import root_state


def table(game, row, seed=0):
    """Return a table whose rows are ``row(seat, key, actions, rng)``."""
    form, rng = exact_form(full_name(game)), np.random.default_rng(seed)
    return PolicyTable(
        form.game,
        {(s, k): tuple(row(s, k, len(ids), rng)) for (s, k), ids in zip(form.keys, form.legal, strict=True)},
    )


def drawn(_seat, _key, actions, rng):
    return rng.dirichlet(np.ones(actions)).tolist()


def test_a_message_that_is_ignored_by_construction_has_no_influence_at_all():
    """In tiny Hanabi the responder's key ends with what the dealer has played: it answers by its own card alone."""

    def deaf(seat, key, actions, _rng):
        row = np.random.default_rng(ord(key.replace("p1:d", "")[0]) if seat else 7).dirichlet(np.ones(actions))
        return row.tolist()

    assert len({key for seat, key in exact_form("tiny_hanabi").keys if seat}) == 6
    assert exact_influence(table("tiny_hanabi", deaf)) == {0: 0.0}
    assert exact_influence(table("tiny_hanabi", drawn))[0] > 0.01


def test_who_is_told_by_a_code_is_told_as_much_as_the_code_has_nats():
    """The dealer plays one of three at random, and the responder repeats it: log 3."""

    def code(seat, key, actions, _rng):
        return [1 / 3] * 3 if not seat else np.eye(3)[int(key[-1])].tolist()

    assert exact_influence(table("tiny_hanabi", code)) == pytest.approx({0: math.log(3)})


def test_who_moves_without_being_seen_has_none_until_the_round_is_over():
    """In the iterated prisoner's dilemma the second seat chooses before it sees what the first has chosen."""
    game = "repeated_game(stage_game=matrix_pd(),num_repetitions=2)"
    found = exact_influence(table(game, drawn))
    assert found[0] == 0.0
    assert found[1] > 0.001


def test_a_boards_positions_are_worth_what_its_histories_are():
    game = "hex(board_size=2)"
    played, moved = table(game, drawn), _Moved({}, {})
    _add_histories(moved, played, root_state(game), 1.0)
    by_history = {seat: moved.nats[seat] / reach for seat, reach in moved.reach.items()}
    assert exact_influence(played) == pytest.approx(by_history)
