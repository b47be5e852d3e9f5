"""Who won a deal, against fractions: nothing that a game may pay is too near to level."""

from fractions import Fraction
from itertools import combinations
from statistics import mean

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from league.population.results.match_columns import Columns
from league.population.results.match_sums import pairs

NAMES = "abc"
AMOUNTS = [
    0.0,
    0.1,
    0.2,
    0.3,
    0.4,
    0.1 + 0.2,
    1 / 3,
    2 / 3,
    0.01,
    1.0,
    1e-6,
    1e-9,
    1e-15,
    5e-324,
    1e8,
    1e8 + 0.1,
    1e15,
    1e16,
    1e150,
]
PAID = st.one_of(st.sampled_from(AMOUNTS), st.floats(0.0, 1e150)).flatmap(lambda gain: st.sampled_from([gain, -gain]))

LEVEL = [(0.1, 0.3), (1 / 3, 1.0), (0.7, 2.1), (1 / 7, 3 / 7), (0.01, 0.03), (0.0123, 0.0369)]


@st.composite
def matches(draw):
    """Return one deal's matches: who sat where, and what the game paid."""
    seats = draw(st.integers(2, 4))
    match = st.tuples(st.tuples(*[st.sampled_from(NAMES)] * seats), st.tuples(*[PAID] * seats))
    return draw(st.lists(match, min_size=1, max_size=6))


@pytest.mark.filterwarnings("ignore:overflow|invalid value")  # mean and spread are lost; who won is not
@settings(max_examples=300, deadline=None)
@given(matches())
@example([("aab", (0.2, 0.4, 0.3))])  # the sum of doubles is 5.6e-17
@example([("abb", (0.3, 0.2, 0.4))])
@example([("ab", (0.1, 0.0)), ("ab", (0.2, 0.0)), ("ab", (0.0, 0.3))])
@example([("ab", (1 / 3, 0.0)), ("ab", (1 / 3, 0.0)), ("ab", (0.0, 2 / 3))])
@example([("ab", (1.0, 0.0)), *[("ab", (0.0, 1 / 3))] * 3])  # as decimals these would not be level
@example([("ab", (0.01, 0.0)), ("ab", (0.05, 0.0)), ("ab", (0.0, 0.06))])
@example([("ab", (1e-6, 0.0))])
@example([("ab", (1e8 + 1e-7, 1e8))])
@example([("ab", (1e150, 0.0)), ("ab", (5e-324, 0.0)), ("ab", (0.0, 1e150))])
@example([("aab", (1.5e308, 1.5e308, 1.7e308))])
@example([("aaab", (5e-324, 0.0, 0.0, 0.0))])
def test_who_won_a_deal_is_what_fractions_say(deal):
    assert winners(deal) == {pair: sign(lead(deal, *pair)) for pair in combinations(NAMES, 2) if met(deal, *pair)}


@settings(deadline=None)
@given(matches(), st.randoms(use_true_random=False))
def test_who_won_a_deal_is_the_same_in_any_order_and_from_either_side(deal, rng):
    assert winners(rng.sample(deal, len(deal))) == winners(deal)
    swapped = [(tuple("cba"[NAMES.index(player)] for player in players), returns) for players, returns in deal]
    back = {("cba"[NAMES.index(b)], "cba"[NAMES.index(a)]): -won for (a, b), won in winners(swapped).items()}
    assert back == winners(deal)


def winners(deal):
    """Return 1 for each two players whose deal the first one won, 0 if drawn, -1 if lost."""
    seated = np.array([[NAMES.index(player) for player in players] for players, _ in deal])
    same = np.zeros(len(deal), np.int64)
    found = pairs(Columns(tuple(NAMES), same, seated, np.array([paid for _, paid in deal])))
    assert (found.won + found.drawn + found.lost == 1).all()
    return {
        (NAMES[a], NAMES[b]): won - lost
        for a, b, won, lost in zip(found.a, found.b, found.won, found.lost, strict=True)
    }


def met(deal, a, b):
    return any({a, b} <= set(players) for players, _ in deal)


def lead(deal, a, b):
    """Return what a's seats were paid more than b's, each match's mean, each return as what it stands for."""
    total = Fraction()
    for players, paid in deal:
        if {a, b} <= set(players):
            of_a, of_b = (
                [stands_for(gain) for gain, own in zip(paid, players, strict=True) if own == who] for who in (a, b)
            )
            total += mean(of_a) - mean(of_b)
    return total


def stands_for(gain):
    """Return the fraction in 2,520ths that reads as the same double, below 1e9, else the decimal that is printed."""
    fraction = Fraction(round(Fraction(gain) * 2520), 2520)
    return fraction if abs(gain) < 1e9 and float(fraction) == gain else Fraction(repr(gain))


def test_thirds_and_tenths_are_level_with_what_they_add_up_to():
    for deal in ([("ab", (gain, 0.0)), ("ab", (2 * gain, 0.0)), ("ab", (0.0, total))] for gain, total in LEVEL):
        assert winners(deal) == {("a", "b"): 0}
        assert winners([*deal, ("ab", (1e-12, 0.0))]) == {("a", "b"): 1}


def sign(value):
    return (value > 0) - (value < 0)
