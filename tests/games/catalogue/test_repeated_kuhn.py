"""Repeated Kuhn poker: each hand is OpenSpiel's, chips add up, and a folded card stays hidden."""

import random

import numpy as np
import pyspiel
import pytest
from support.twins import brute_force, openspiel_values, random_table

from games.common.errors import UsageError
from games.registry import make_game
from league.theory.exact.exploitability import PolicyTable, head_to_head, nash_conv, uniform_table

ONE, TWO = "repeated_kuhn_poker(hands=1)", "repeated_kuhn_poker(hands=2)"


def equilibrium(name):
    """Return the policy that plays in every hand the equilibrium of Kuhn poker whose first player never bets first."""
    shares = {("J", ""): 0, ("Q", ""): 0, ("K", ""): 0, ("J", "pass bet"): 0, ("Q", "pass bet"): 1 / 3}
    shares |= {("K", "pass bet"): 1, ("J", "pass"): 1 / 3, ("Q", "pass"): 0, ("K", "pass"): 1}
    shares |= {("J", "bet"): 0, ("Q", "bet"): 1 / 3, ("K", "bet"): 1}
    rows = {}
    for key in uniform_table(name).probabilities:
        card, moves = (line.partition(": ")[2] for line in key[1].splitlines()[-2:])
        bets = shares[card, "" if moves == "none" else moves]
        rows[key] = (1 - bets, bets)
    return PolicyTable(name, rows)


def test_one_hand_is_openspiels_kuhn_poker():
    table = random_table(ONE, 1)
    states, expected, best = openspiel_values(pyspiel.load_game("kuhn_poker"), table)
    assert states == 12
    assert head_to_head([table, table]) == pytest.approx(expected)
    assert nash_conv(table) == pytest.approx(sum(best) - sum(expected))
    assert nash_conv(uniform_table(ONE)) == pytest.approx(11 / 12)  # published, of uniform play


@pytest.mark.parametrize(("name", "value"), [(ONE, -1 / 18), (TWO, 0.0)])
def test_an_equilibrium_of_each_hand_is_one_of_the_match_and_its_value_is_the_sum(name, value):
    table = equilibrium(name)
    assert nash_conv(table) == pytest.approx(0.0, abs=1e-12)
    assert head_to_head([table, table]) == pytest.approx((value, -value), abs=1e-12)


def test_good_plays_that_equilibrium():
    table, game, rng = equilibrium(TWO), make_game(TWO), random.Random(0)
    seen = {}
    for seed in range(3000):
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            action = game.scripts()["good"](rng)
            seen.setdefault((seat, game.information_state(seat)), []).append(action == "bet")
            game.apply(action)
    shares = {key: (np.mean(bets), len(bets)) for key, bets in seen.items() if len(bets) > 100}
    assert len(shares) > 12
    for key, (share, count) in shares.items():
        bets = table.probabilities[key][1]
        assert abs(share - bets) <= 4 * (bets * (1 - bets) / count) ** 0.5 + 1e-12


def test_exact_values_agree_with_brute_force():
    table = random_table(TWO, 2)
    assert head_to_head([table, table]) == pytest.approx(tuple(brute_force(make_game(TWO).undealt(), table)))


def test_chips_add_up_over_five_hands_and_seats_take_turns_to_begin():
    game = make_game("repeated_kuhn_poker")
    game.reset(3)
    begun, chips = [], 0.0
    for _ in range(5):
        begun.append(game.to_act())
        game.apply("bet")
        game.apply("pass")  # folds: who began wins a chip
        chips += 1.0 if begun[-1] == 0 else -1.0
        assert game.returns() == (chips, -chips)
        assert game.rewards() == ((1.0, -1.0) if begun[-1] == 0 else (-1.0, 1.0))
    assert begun == [0, 1, 0, 1, 0]
    assert game.to_act() is None


def test_a_folded_card_stays_hidden_and_one_that_was_called_is_shown():
    game = make_game("repeated_kuhn_poker(hands=2)").undealt()
    seen = {}
    for theirs in "QK":
        for moves in (("bet", "pass"), ("bet", "bet"), ("pass", "pass")):
            match = game.copy()
            for card in ("J", theirs):
                match.apply_chance(card)
            for move in moves:
                match.apply(move)
            for card in "KJ":
                match.apply_chance(card)
            seen[theirs, moves] = match.observe(0), match.information_state(0)
    assert seen["Q", ("bet", "pass")] == seen["K", ("bet", "pass")]
    assert "theirs hidden; bet pass; you won +1" in seen["Q", ("bet", "pass")][0]
    assert "theirs Q; bet bet; you won -2" in seen["Q", ("bet", "bet")][0]
    assert "theirs K; pass pass; you won -1" in seen["K", ("pass", "pass")][0]


def test_wrong_sizes_are_refused():
    with pytest.raises(UsageError, match="hands is 1 to 100"):
        make_game("repeated_kuhn_poker(hands=0)")
