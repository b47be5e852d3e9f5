"""Dark hex and phantom tic-tac-toe: exploitabilities are those of OpenSpiel's states, walked one by one."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyspiel
import pytest
from open_spiel.python import policy as openspiel_policy
from open_spiel.python.algorithms.exploitability import exploitability as exploitability_by_openspiel
from support.source import ROOT

pytest.importorskip("numba")

from games.common.errors import UsageError
from league.theory.exact.sequence_form import enumerated
from league.theory.public import dark_boards, dark_bounds, dark_reading

HEX = "dark_hex(num_rows={},num_cols={},gameversion={})"
ABRUPT = HEX.format(2, 2, "adh")


def rows_of(board, policies, state):
    """Return what a policy does at a state of OpenSpiel's, by the stones and tries that led there: [legal]."""
    stones, nodes = [0, 0], [0, 0]
    for seat, move in [(item.player, item.action) for item in state.full_history()]:
        trie, node = board.tries[seat], nodes[seat]
        edge = trie.first[node] + (int(trie.untried[node]) & ((1 << move) - 1)).bit_count()
        placed = not stones[1 - seat] >> move & 1
        nodes[seat] = int((trie.placed if placed else trie.taken)[edge])
        stones[seat] |= placed << move
    seat = state.current_player()
    first = board.tries[seat].first[nodes[seat]]
    return policies[seat][first : first + len(state.legal_actions())]


def below(state):
    """Yield a state and all those after it in which a seat moves."""
    if not state.is_terminal():
        yield state
        for move in state.legal_actions():
            yield from below(state.child(move))


@pytest.mark.thorough  # compiling takes seconds where nothing is cached
@pytest.mark.parametrize("seed", range(3))
def test_an_abrupt_game_is_as_exploitable_as_openspiel_says(seed):
    game, board = pyspiel.load_game(ABRUPT), dark_boards.dark_board(ABRUPT)
    policies = board.drawn(np.random.default_rng(seed))
    table = openspiel_policy.TabularPolicy(game)
    for state in below(game.new_initial_state()):
        row = table.policy_for_key(state.information_state_string())
        row[:] = 0.0
        row[state.legal_actions()] = rows_of(board, policies, state)
    assert board.information_states == len(table.state_lookup)
    assert dark_boards.exploitability(board, policies) == pytest.approx(
        exploitability_by_openspiel(game, table), abs=1e-9
    )


def seen(state, seat):
    """Return OpenSpiel's information state without its count of all tries, which the game does not reveal."""
    lines = state.information_state_string(seat).split("\n")
    return "\n".join([*lines[:-2], lines[-1]])


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(2, 2, "cdh"), (2, 2, "adh"), (2, 3, "cdh")])
def test_values_are_those_of_the_sequence_form(shape):
    name = HEX.format(*shape)
    root, board = pyspiel.load_game(name).new_initial_state(), dark_boards.dark_board(name)
    policies = board.drawn(np.random.default_rng(7))
    form = enumerated(name, root, seen)
    rows = {(s.current_player(), seen(s, s.current_player())): rows_of(board, policies, s) for s in below(root)}
    behaviour = [rows[key] for key in form.keys]
    assert board.information_states == len(form.keys)
    assert dark_boards.value(board, policies) == pytest.approx(form.values(behaviour)[0], abs=1e-12)
    assert dark_boards.best_responses(board, policies) == pytest.approx(form.best_responses(behaviour), abs=1e-12)


@pytest.mark.thorough
def test_the_bounds_of_a_value_close_on_it():
    """The first seat wins classical dark hex of 2 × 2 cells, and half a match of the abrupt one."""
    for name, value in ((HEX.format(2, 2, "cdh"), 1.0), (ABRUPT, 0.5)):
        *_, solved = dark_boards.solve(dark_boards.dark_board(name), 300, 100)
        assert solved.low - 1e-9 <= value <= solved.high + 1e-9
        assert solved.high - solved.low < 1e-3


@pytest.mark.thorough
def test_bounds_are_of_the_newest_policies_too_and_never_widen():
    """Of 2 × 3 cells in the abrupt game the averages of 400 iterations leave 3e-4; the newest policies, 1e-15."""
    found = list(dark_boards.solve(dark_boards.dark_board(HEX.format(2, 3, "adh")), 400, 50))
    assert found[-1].high - found[-1].low < 1e-6
    assert found[-1].low <= 9 / 11 + 1e-9
    assert found[-1].high >= 9 / 11 - 1e-9
    for before, after in pairwise(found):
        assert before.low <= after.low
        assert before.high >= after.high


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(2, 2, "cdh"), (2, 3, "cdh"), (2, 3, "adh")])
def test_a_match_has_come_to_every_state(shape):
    """A reader is asked once at each, with the legal cells of that state, and its answers stand in their places."""
    board = dark_boards.dark_board(HEX.format(*shape))
    policies = board.drawn(np.random.default_rng(3))
    for seat in (0, 1):
        asked = set()

        def answers(positions, seat=seat, asked=asked):
            states = [match.pyspiel_state() for _, match in positions]
            assert {(state.current_player(), given) for state, (given, _) in zip(states, positions, strict=True)} == {
                (seat, seat)
            }
            asked |= {seen(state, seat) for state in states}
            return [rows_of(board, policies, state) for state in states]

        assert dark_reading.read_policy(board, seat, answers) == pytest.approx(policies[seat], abs=0)
        assert len(asked) == len(board.tries[seat].first)
        ask = dark_reading.asker(board, answers)
        nodes = np.array([5, 1, 3])
        for node, row in zip(nodes, ask(seat, nodes), strict=True):
            first = board.tries[seat].first[node]
            assert list(row) == list(policies[seat][first : first + len(row)])


@pytest.mark.thorough
def test_a_mixture_is_worth_the_mean_of_its_members():
    """Against a fixed policy; members differ in weight, and one never comes to half of the states."""
    board, rng = dark_boards.dark_board(HEX.format(2, 3, "adh")), np.random.default_rng(5)
    members = [(board.drawn(rng), weight) for weight in (0.5, 0.2, 0.3)]
    first = board.tries[0].first[0]
    members[1][0][0][first : first + 6] = [1, 0, 0, 0, 0, 0]
    other = board.drawn(rng)
    for seat in (0, 1):
        mixed = dark_boards.mixture(board, seat, [(policies[seat], weight) for policies, weight in members])
        sums = np.add.reduceat(mixed, board.tries[seat].first)
        assert sums == pytest.approx(np.ones(len(sums)))
        together = (mixed, other[1]) if seat == 0 else (other[0], mixed)
        each = [
            dark_boards.value(board, (policies[0], other[1]) if seat == 0 else (other[0], policies[1]))
            for policies, _ in members
        ]
        expected = sum(weight * worth for worth, (_, weight) in zip(each, members, strict=True))
        assert dark_boards.value(board, together) == pytest.approx(expected, abs=1e-12)


@pytest.mark.thorough
def test_where_no_member_comes_a_mixture_is_their_mean_policy():
    """Both begin on the first cell, with weights 1/4 and 3/4: below the other cells the rows are mixed as they are."""
    board, rng = dark_boards.dark_board(ABRUPT), np.random.default_rng(5)
    trie, members = board.tries[0], [board.drawn(rng)[0] for _ in range(2)]
    for policy in members:
        policy[:4] = [1, 0, 0, 0]
    mixed = dark_boards.mixture(board, 0, [(members[0], 0.25), (members[1], 0.75)])
    assert np.add.reduceat(mixed, trie.first) == pytest.approx(np.ones(len(trie.first)))
    below = int(trie.placed[1])  # the stone stands on the second cell
    own = slice(trie.first[below], trie.first[below] + 3)
    assert mixed[own] == pytest.approx(0.25 * members[0][own] + 0.75 * members[1][own])


@pytest.mark.thorough
@pytest.mark.parametrize(("shape", "plans"), [((2, 2, "cdh"), 20), ((2, 3, "adh"), 400)])
def test_bounds_from_plans_hold_the_truth(shape, plans):
    """And draw near it by more plans: the lower one from below, the upper one from above."""
    board = dark_boards.dark_board(HEX.format(*shape))
    policies = board.drawn(np.random.default_rng(1))
    truth = dark_boards.exploitability(board, policies)

    def ask(seat, nodes):
        trie = board.tries[seat]
        width = dark_boards.widths(trie)
        return [policies[seat][trie.first[n] : trie.first[n] + width[n]] for n in nodes]

    few = dark_bounds.bounds(board, ask, 0.0, 0, plans // 10)
    many = dark_bounds.bounds(board, ask, 0.0, 0, plans)
    for found in (few, many):
        assert found.low <= truth <= found.high
    assert many.high - many.low < few.high - few.low
    sampler = dark_bounds.DarkSampler(board, ask, np.random.default_rng(2))
    lower, upper = np.mean([sampler.draw(4) for _ in range(100)], axis=0)  # of so few plans far apart
    assert lower < truth - 0.02
    assert upper > truth + 0.02


@pytest.mark.slow
def test_three_by_three_cells_have_as_many_states_as_were_published():
    """The counts of nashbench are 6.07 and 5.99 million."""
    assert dark_boards.dark_board("dark_hex").information_states == 6_072_917
    assert round(dark_boards.dark_board("phantom_ttt").information_states, -4) == 5_990_000


def test_stones_in_any_of_eight_lines_have_won():
    lines = (0o7, 0o70, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)  # rows, columns and diagonals, a digit a row
    for seat in (0, 1):
        for stones in range(512):
            won = any(stones & line == line for line in lines)
            assert dark_boards._wins("phantom_ttt", 3, 3, seat, stones) == won


def test_who_has_no_numba_is_told(monkeypatch):
    monkeypatch.setattr(dark_boards, "passes", None)
    assert dark_boards.dark_board("kuhn_poker") is None
    with pytest.raises(UsageError, match="pip install numba"):
        dark_boards.dark_board(ABRUPT)


def test_numba_is_imported_when_a_board_is_built_and_not_before():
    code = (
        "import sys; from league.theory.public import dark_boards; before = 'numba' in sys.modules; "
        "dark_boards.is_compiled(); dark_boards.dark_board('kuhn_poker'); print(before, 'numba' in sys.modules); "
        "dark_boards.passes.NOBODY; print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
