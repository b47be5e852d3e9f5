"""Effective sizes and distances in cases that are known without computing them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from games.common.errors import UsageError
from league.theory.diversity import behavioural_distance, effective_diversity, effective_size
from league.theory.exact.exploitability import PolicyTable, exact_form, uniform_table

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def always(game: str, *actions: int) -> PolicyTable:
    """Return the table in which seat s takes action ``actions[s]`` wherever it is asked."""
    form = exact_form(game)
    rows = {
        key: tuple(float(action == actions[key[0]]) for action in legal)
        for key, legal in zip(form.keys, form.legal, strict=True)
    }
    return PolicyTable(game, rows)


def random_table(game: str, seed: int) -> PolicyTable:
    form, generator = exact_form(game), np.random.default_rng(seed)
    rows = {
        key: tuple(generator.dirichlet(np.full(len(legal), 0.3)).tolist())
        for key, legal in zip(form.keys, form.legal, strict=True)
    }
    return PolicyTable(game, rows)


def test_the_size_of_a_mixture() -> None:
    assert effective_size(np.full(7, 1 / 7)) == pytest.approx(7.0)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == 1.0
    assert effective_size(np.array([0.5, 0.25, 0.25])) == pytest.approx(2**1.5)  # 1.5 bits
    with pytest.raises(ValueError, match="sum to one"):
        effective_size(np.array([0.5, 0.6]))


def test_diversity_of_known_populations() -> None:
    """Rock-paper-scissors with wins of w: three winning pairs of weight w / 9."""
    assert effective_diversity(3 * ROCK_PAPER_SCISSORS) == pytest.approx(1.0)
    skill = np.array([3.0, 1.0, 2.0])
    assert effective_diversity(skill[:, None] - skill[None]) == pytest.approx(0.0, abs=1e-8)
    assert effective_diversity(np.full((4, 4), 0.5)) == 0.0


def test_copies_and_weak_players_add_no_diversity() -> None:
    copies = [0, 1, 1, 1, 2]
    beaten = np.pad(ROCK_PAPER_SCISSORS, (0, 1), constant_values=2.0)
    beaten[3, :] = -2.0
    beaten[3, 3] = 0.0
    for payoffs in (ROCK_PAPER_SCISSORS[np.ix_(copies, copies)], beaten):
        assert effective_diversity(payoffs) == pytest.approx(1 / 3, abs=1e-6)


def test_distance_of_pass_and_bet_in_kuhn() -> None:
    """Who always passes is asked once a match; who always bets too. Both are asked at the same first points.

    Seat 0 decides first in every match (1 decision, TV 1). Passing alone never comes to its second one: a
    bet is needed, and betting alone has no pass before it. Seat 1 decides once, after a pass or after a
    bet, each reached with certainty by one of the two: half and half, TV 1.
    """
    assert behavioural_distance(always("kuhn_poker", 0, 0), always("kuhn_poker", 1, 1)) == pytest.approx((1.0, 1.0))


def test_one_seats_change_is_felt_at_that_seat_alone() -> None:
    """Seat 0 passes in both; seat 1 passes or bets. Seat 0's second point is reached half the time, and it passes."""
    passes, bets = always("kuhn_poker", 0, 0), always("kuhn_poker", 0, 1)
    assert behavioural_distance(passes, bets) == pytest.approx((0.0, 1.0))


def test_a_small_change_at_one_information_state_counts_by_its_reach() -> None:
    """Uniform Kuhn: seat 0 holds the jack (1/3), passes (1/2) and meets a bet (1/2): reach 1/12."""
    uniform = uniform_table("kuhn_poker")
    moved = PolicyTable("kuhn_poker", {**uniform.probabilities, (0, "0pb"): (0.8, 0.2)})
    assert (0, "0pb") in uniform.probabilities
    assert behavioural_distance(uniform, moved) == pytest.approx((0.3 / 12, 0.0))


def test_what_nobody_reaches_does_not_count() -> None:
    bets = always("kuhn_poker", 1, 1)
    moved = PolicyTable("kuhn_poker", {**bets.probabilities, (0, "0pb"): (1.0, 0.0)})
    assert behavioural_distance(bets, moved) == (0.0, 0.0)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["kuhn_poker", "tiny_hanabi", "kuhn_poker(players=3)"]), st.integers(0, 999), st.integers(0, 999)
)
def test_distances_are_symmetric_and_bounded_by_decisions(game: str, first: int, second: int) -> None:
    table, other = random_table(game, first), random_table(game, second)
    there = behavioural_distance(table, other)
    assert there == pytest.approx(behavioural_distance(other, table))
    assert behavioural_distance(table, table) == pytest.approx([0.0] * len(there))
    assert all(0.0 <= distance <= 2.0 for distance in there)  # nobody decides more than twice in these games


def test_reach_matches_a_walk_of_the_tree() -> None:
    """The distance to a table whose every TV is known equals a plain recursion over OpenSpiel's states."""
    import pyspiel

    game, first, second = "leduc_poker", random_table("leduc_poker", 1), random_table("leduc_poker", 2)
    expected = np.zeros(2)

    def walk(state: pyspiel.State, table: PolicyTable, reach: float) -> None:
        if state.is_terminal() or reach == 0.0:
            return
        if state.is_chance_node():
            for action, chance in state.chance_outcomes():
                walk(state.child(action), table, reach * chance)
            return
        key = (state.current_player(), state.information_state_string())
        mine, theirs = first.probabilities[key], second.probabilities[key]
        expected[key[0]] += reach * sum(abs(p - q) for p, q in zip(mine, theirs, strict=True)) / 4.0
        for action, probability in zip(state.legal_actions(), table.probabilities[key], strict=True):
            walk(state.child(action), table, reach * probability)

    for table in (first, second):
        walk(pyspiel.load_game(game).new_initial_state(), table, 1.0)
    assert behavioural_distance(first, second) == pytest.approx(tuple(expected))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UsageError, match="play kuhn_poker and tiny_hanabi"):
        behavioural_distance(uniform_table("kuhn_poker"), uniform_table("tiny_hanabi"))
    board = PolicyTable("tic_tac_toe", {})
    with pytest.raises(UsageError, match="stored by positions"):
        behavioural_distance(board, board)
