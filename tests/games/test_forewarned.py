"""A seat is told what wins at once and what lets the other win next, as the lines of the board have it."""

import random

import pytest

from games.common.errors import UsageError
from games.registry import make_game

LINES = [(1, 2, 3), (4, 5, 6), (7, 8, 9), (1, 4, 7), (2, 5, 8), (3, 6, 9), (1, 5, 9), (3, 5, 7)]


def completing(mark, board):
    """Return the empty squares that complete a line of a mark; ``board`` has the marks by square."""
    return {
        square
        for line in LINES
        for square in line
        if square not in board and all(board.get(other) == mark for other in line if other != square)
    }


def told_of(board, marks):
    """Return the lines to be told, from the geometry of the board alone."""
    empty = [square for square in range(1, 10) if square not in board]
    if winning := completing(marks[0], board):
        return ["Wins: " + " ".join(map(str, sorted(winning)))]
    safe = [square for square in empty if not completing(marks[1], board | {square: marks[0]})]
    return [] if safe == empty else ["Safe: " + (" ".join(map(str, safe)) or "none")]


def test_the_lines_are_those_of_the_board_in_all_positions_of_three_hundred_matches():
    rng, seen = random.Random(0), set()
    for _ in range(300):
        game, plain, board = make_game("forewarned(tic_tac_toe)"), make_game("tic_tac_toe"), {}
        while (seat := game.to_act()) is not None:
            told = told_of(board, "XO" if seat == 0 else "OX")
            assert game.observe(seat) == "\n".join([plain.observe(seat), *told])
            assert game.observe(1 - seat) == plain.observe(1 - seat)
            seen.add(told[0].partition(" ")[0] + ("none" in told[0]) * " none" if told else "")
            action = rng.choice(game.legal_actions())
            board[int(action)] = "XO"[seat]
            game.apply(action)
            plain.apply(action)
        assert game.observe(0) == plain.observe(0)
        assert game.returns() == plain.returns()
    assert seen == {"", "Wins:", "Safe:", "Safe: none"}


def test_a_column_that_lets_the_other_drop_on_top_is_not_safe():
    """X has 1, 2 and 3 in the second row over O, O, X: whoever fills column 4 first lets the other stand above it."""
    game = make_game("forewarned(connect_four)")
    for column in ["3", "1", "1", "2", "2", "6", "3"]:
        game.apply(column)
    assert game.to_act() == 1
    told = game.observe(1).splitlines()[-1]
    assert told == "Safe: 1 2 3 5 6 7"


@pytest.mark.parametrize("game", ["kuhn_poker", "backgammon", "matrix_rps", "catch"])
def test_games_with_chance_hidden_moves_or_other_seats_are_refused(game):
    with pytest.raises(UsageError, match="two seats, one of which wins what the other loses"):
        make_game(f"forewarned({game})")
