"""What the file tells of replies in TextArena's games: its notation by worked examples; with the package, matches."""

import importlib.util
import random

import pytest

from games.conformance import faults, random_action
from games.outside.textarena_replies import read_replies, replies_of
from games.registry import make_game

needs_textarena = pytest.mark.skipif(importlib.util.find_spec("textarena") is None, reason="textarena is an extra")


def every(*templates, observation="", **find):
    return list(read_replies({"replies": templates, "find": find}).every(observation))


@pytest.mark.parametrize(
    ("template", "replies"),
    [
        ("[draw]", ["[draw]"]),
        ("[{a-c}]", ["[a]", "[b]", "[c]"]),
        ("[{9-11}]", ["[9]", "[10]", "[11]"]),
        ("[{h,v} {0,1}]", ["[h 0]", "[h 1]", "[v 0]", "[v 1]"]),
        ("{+,-,*}", ["+", "-", "*"]),
        ("{{({0,1}): [F]}}", ["{(0): [F]}", "{(1): [F]}"]),
        ("[{b}{2}{1~1}{2~0}]", ["[b2a2]", "[b2b2]", "[b2c2]"]),
        ("[{S,0-1}]", ["[S]", "[0]", "[1]"]),
    ],
)
def test_slots_stand_for_what_they_list(template, replies):
    assert every(template) == replies


def test_a_named_slot_stands_for_what_its_pattern_finds():
    board = "R00 . _\nR01 . .\nR02 _ _"
    assert every("[{row} {0,1}]", observation=board, row=r"(?m)^R(\d\d) .*_") == [
        "[00 0]",
        "[00 1]",
        "[02 0]",
        "[02 1]",
    ]
    assert every("[{row}]", "[pass]", observation="nothing", row=r"R(\d)") == ["[pass]"]


def test_a_board_may_tell_its_size():
    assert every("[{a-size}{9-size}]", observation="on a 2x2 board", size=r"(\d)x") == [
        "[a9]",
        "[a10]",
        "[b9]",
        "[b10]",
    ]
    assert every("[{a-size}]", observation="on a board", size=r"(\d)x") == []


def test_a_slot_that_leans_on_a_later_one_is_refused():
    with pytest.raises(ValueError, match="should name one of the 1 slots before it"):
        every("[{a-c}{2~1}]")


def test_draws_are_seeded_come_once_and_leave_nothing_out():
    replies = read_replies({"replies": ["[{a-e}{1-5}]", "[pass]"]})
    drawn = list(replies.drawn("", random.Random(3)))
    assert drawn == list(replies.drawn("", random.Random(3)))
    assert drawn != list(replies.drawn("", random.Random(4)))
    assert len(drawn) == 26
    assert set(drawn) == set(replies.every(""))


def test_replies_go_by_the_folder_of_the_game():
    assert set(replies_of("textarena.envs.Golf.env:GolfEnv").every("")) >= {
        "[draw]",
        "[take]",
        "[discard]",
        "[swap 3 3]",
    }
    assert replies_of("textarena.envs.TicTacToe.env:TicTacToeEnv") is None
    assert replies_of("elsewhere") is None


@needs_textarena
@pytest.mark.parametrize("name", ["Golf-v0", "PegJump-v0", "NewRecruit-v0", "Chopsticks-v0"])
def test_games_whose_replies_are_told_conform(name):
    assert faults(lambda: make_game(f"textarena:{name}"), seeds=range(1)) == []


@needs_textarena
def test_a_puzzle_is_solved_by_lot_since_what_is_wrong_is_refused():
    game, rng = make_game("textarena:Sudoku-v0-very-easy"), random.Random(0)
    game.reset(0)
    moves = 0
    while game.to_act() is not None:
        game.apply(random_action(game, rng))
        moves += 1
    assert (moves, game.returns()) == (6, (1.0,))  # 75 clues of 81


@needs_textarena
def test_what_stands_behind_a_bracket_is_read_where_it_counts():
    game = make_game("textarena:TwoDollar-v0")
    assert not game.in_brackets
    game.apply(game.actions().read("Half for each.\n[Propose] $1.00"))
    assert "Player 0 proposes: $1.00 for themselves, $1.00 for their opponent" in game.observe(1)


@needs_textarena
def test_a_match_on_a_larger_board_goes_on():
    game = make_game("textarena:Breakthrough-v0(board_size=12)")
    game.apply("[a2a3]")
    assert game.to_act() == 1


@needs_textarena
def test_a_match_in_which_no_reply_is_legal_is_over():
    game = make_game("textarena:Breakthrough-v0-tiny")
    board = game._position.env.state.game_state["board"]  # white below black in every file, and nobody can capture
    for row in board:
        row[:] = [""] * 5
    board[1][0], board[3][0] = "W", "B"
    game.apply("[a2a3]")
    assert game.to_act() is None
    assert game.returns() == (0.0, 0.0)


@needs_textarena
@pytest.mark.parametrize(
    ("name", "error"),
    [("CharacterConclave-v0", "missing 1 required positional argument: 'observation_type'"), ("Golf-v0", "")],
)
def test_a_game_whose_code_breaks_on_its_own_moves_says_so(name, error):
    said = make_game(f"textarena:{name}").breaks(random.Random(0), 20)
    assert error in said
    assert bool(said) == bool(error)
