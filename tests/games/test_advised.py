"""A text that is paid what it changes: for whichever seat it is written."""

import json

import pytest

from games.registry import make_game


@pytest.mark.parametrize(("seat", "paid"), [("", 3.0), (2, -5.0), (3, 2.0)])
def test_the_advised_seat_is_the_one_whose_returns_are_compared(seat, paid):
    game = make_game(f"advised(kuhn_poker(players=3),{f'seat={seat},' if seat else ''}form=1)")
    seat = seat or 1
    game.reset(4)
    assert game.observe(0) == game._inner.observe(seat - 1)
    game.apply(game.actions().labels[0])
    told, untold = game.submatches()
    assert [one.given for one in (told, untold)] == [
        ((seat - 1, "plan", game._text),),
        ((seat - 1, "plan", ""),),
    ]
    assert told.draws == untold.draws
    game.record_outcomes([json.dumps([4.0, 1.0, 2.5]), json.dumps([1.0, 6.0, 0.5])])
    assert game.returns() == game.rewards() == (paid,)
    assert game.to_act() is None


def test_a_forfeited_match_counts_as_the_least_that_there_is():
    game = make_game("advised(kuhn_poker(players=3),seat=2,form=1)")
    least = game._inner.spec.min_return
    for outcomes, paid in (([None, 3.0], least - 3.0), ([3.0, None], 3.0 - least), ([None, None], 0.0)):
        game.reset(0)
        game.apply(game.actions().labels[-1])
        assert game.submatches()
        game.record_outcomes([json.dumps([0.0, value, 0.0]) if value else "" for value in outcomes])
        assert game.returns() == (paid,)
