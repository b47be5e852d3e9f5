"""Values of games against published constants."""

import pytest

from games.registry import make_game
from league.theory.exact.game_value import game_value


@pytest.mark.parametrize(
    ("game", "value"),
    [
        ("kuhn_poker", -1 / 18),  # Kuhn 1950
        ("leduc_poker", -0.0856064),  # OpenSpiel's documentation of leduc_poker
        ("matrix_rps", 0.0),
        ("matrix_mp", 0.0),
        ("tic_tac_toe", 0.0),  # a draw
        ("hex(board_size=2)", 1.0),  # the first player wins on every board (Nash; Gardner 1957)
        ("hex(board_size=3)", 1.0),
    ],
)
def test_the_value_is_the_published_one(game, value):
    assert game_value(make_game(game).spec) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("game", ["kuhn_poker(players=3)", "tiny_hanabi", "connect_four"])
def test_a_game_without_a_value_or_beyond_reach_has_none(game):
    assert game_value(make_game(game).spec) is None
