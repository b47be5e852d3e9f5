"""Which moves bear on something that came about, in games that say so."""

import pytest

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.registry import make_game
from league.training.evidence.eligible import marks_of


def marks(name, *moves, seed=0):
    game = make_game(name)
    game.reset(seed)
    for move in moves:
        game.apply(move)
    return game.eligible()


@pytest.mark.parametrize(
    ("name", "moves", "expected"),
    [
        ("kuhn_poker", ("pass", "bet"), (False, False)),  # cut off: nobody answered the bet
        ("kuhn_poker", ("pass", "bet", "bet"), (True, True, True)),
        ("repeated_kuhn_poker(hands=2)", ("bet", "pass", "pass"), (True, True, False)),
        ("liars_dice", ("1x1", "1x2", "1x3", "liar"), (False, False, True, True)),
        ("liars_dice", ("1x1", "1x2"), (False, False)),
        (
            "simple_negotiation(form=1)",
            ("offer 1 apple for 1 pear", "offer 1 pear for 1 apple", "accept"),
            (False, True, True),
        ),
        ("simple_negotiation(form=1)", ("offer 1 apple for 1 pear", "leave"), (True, True)),
        ("simple_negotiation(form=1)", ("offer 1 apple for 1 pear",), (False,)),
        ("tic_tac_toe", ("5",), (True,)),  # it does not say
    ],
)
def test_moves_that_count(name, moves, expected):
    assert marks(name, *moves) == expected


def test_a_wrapper_says_what_its_game_says():
    game = make_game("renamed(kuhn_poker)")
    game.reset(0)
    for _ in range(2):
        game.apply(game.legal_actions()[1])
    assert game.eligible() == (True, True)


def test_a_refused_reply_counts_as_the_move_that_followed_it():
    said = ((0, None), (0, "1x1"), (1, None), (1, "1x2"), (0, "liar"), (1, None))
    turns = tuple(Turn(seat, "", "main", "", (), action or "?", action, 0.0, None) for seat, action in said)
    request = MatchRequest(0, "liars_dice", 5, 5, ("main", "main"), (True, True))
    assert marks_of(Episode(request, turns, (0.0, 0.0), EndReason.FINISHED)) == [False, False, True, True, True, True]
