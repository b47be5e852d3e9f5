"""One seat for a program outside: its matches, rewards and forfeits are the league's own, whatever the door."""

import pytest
from support.matches.seat_outside import own_returns

from games.common.errors import UsageError
from league.cli.python.seat_matches import seat_matches
from league.population.players.engines import Engines


def played(matches, number, reply):
    match = matches.begin(number)
    while match.episode is None:
        match.answer(reply)
    return match


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker"])
def test_matches_pay_what_the_leagues_own_pay(game):
    matches = seat_matches(game, "random", Engines(), seed=7)
    action = "bet" if game == "kuhn_poker" else "call"
    found = [played(matches, number, f"[{action}]") for number in range(40)]
    expected = own_returns(40, 7, action, game=game)
    assert [match.seat_return for match in found] == expected
    assert [match.seat for match in found] == [0, 1] * 20
    assert len(set(expected)) > 2
    assert played(matches, 12, f"[{action}]").seat_return == expected[12], "each starts the same however often"


def test_an_illegal_reply_is_asked_again_once_and_then_forfeits():
    matches = seat_matches("kuhn_poker", "equilibrium", Engines())
    match = matches.begin(0)
    before = match.prompt
    match.answer("?")
    assert match.episode is None
    assert match.prompt != before
    assert match.legal == ("pass", "bet")
    match.answer("?")
    assert (match.illegal_replies, match.prompt, match.legal) == (2, [], ())
    assert match.seat_return == matches.spec.min_return


def test_what_cannot_be_played_by_one_seat_is_refused():
    for words in (("kuhn_pokr", "random"), ("kuhn_poker", "radnom"), ("lookup_chain", "random")):
        with pytest.raises(UsageError, match=r"Did you mean|open matches"):
            seat_matches(*words, Engines())
