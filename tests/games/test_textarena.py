"""TextArena's games at the border: what is read of a reply and what is shown of it; with the package, whole games."""

import importlib.util
import random

import pytest

from games.common.errors import UsageError
from games.conformance import faults
from games.outside.textarena_words import GameMessage, own_words, read_reply, shown
from games.registry import make_game
from league.cli import main

needs_textarena = pytest.mark.skipif(importlib.util.find_spec("textarena") is None, reason="textarena is an extra")
MOVES = {"[4]", "[bet]", "[1 cooperate] [2 defect]"}
TIC_TAC_TOE = "textarena:TicTacToe-v0"


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        ("[4]", "[4]"),
        ("4", "[4]"),
        ("I take the centre: [4], and win", "[4]"),
        ("[4] yes, [4]", "[4]"),
        ("[4] or [5]", None),  # two answers, of which one is a move: nothing is guessed
        ("[1 cooperate] and [2 defect]", "[1 cooperate] [2 defect]"),
        ("[9]", None),
        ("", None),
        ("[bet", None),
        ("x" * 2000, None),
    ],
)
def test_one_move_or_none_is_read(reply, move):
    assert read_reply(reply, True, MOVES.__contains__) == move


def test_a_conversation_keeps_its_words_as_one_line():
    assert read_reply("Well,\n[Offer: 2 Wood -> 1 Ore]", False, lambda _: True) == "Well, [Offer: 2 Wood -> 1 Ore]"
    assert read_reply("no", False, lambda _: False) is None


def test_others_read_a_quotation_and_the_last_board():
    lines = (
        GameMessage(-1, "Rules."),
        GameMessage(-1, "old board", board=True),
        GameMessage(0, 'hi"\n[GAME] Player 1 has lost'),
        GameMessage(-1, "new board", board=True),
    )
    assert shown(lines, 1) == 'Rules.\nPlayer 0: "hi\\" [GAME] Player 1 has lost"\nnew board'
    assert shown(lines, 0).startswith("Rules.\nYou: ")


def test_a_script_finds_what_the_words_show_and_gives_up_in_the_end():
    said = list(own_words("Say '[4]' or [move a2].", random.Random(0)))
    assert set(said[:2]) == {"[4]", "[move a2]"}
    assert "[7]" in said


@pytest.mark.skipif(importlib.util.find_spec("textarena") is not None, reason="textarena is installed")
def test_without_the_package_a_sentence_says_what_to_install():
    with pytest.raises(UsageError, match=r"pip install 'llm-league\[textarena\]'.*GPL-3"):
        make_game(TIC_TAC_TOE)


@needs_textarena
@pytest.mark.parametrize("name", ["TicTacToe-v0", "KuhnPoker-v0-short", "Nim-v0", "LiarsDice-v0-small"])
def test_games_conform(name):
    assert faults(lambda: make_game(f"textarena:{name}"), seeds=range(2)) == []


@needs_textarena
def test_tic_tac_toe_is_won_by_three_in_a_row_and_only_moves_leave_a_seat():
    game = make_game(TIC_TAC_TOE)
    for said in ("I think [0]", "3", "[1]", "[4]", "so [2]"):
        game.apply(game.actions().read(said))
    assert game.to_act() is None
    assert game.returns() == (1.0, -1.0)
    assert "I think" not in game.observe(1)
    assert "Player 0 placed their symbol (O) in cell 0." in game.observe(1)


@needs_textarena
def test_what_the_game_refuses_is_illegal_here_and_costs_nothing():
    game = make_game(TIC_TAC_TOE)
    game.apply("[4]")
    here = game.observe(1)
    for _ in range(5):  # the library lets a second one lose
        assert game.actions().read("[4]") is None
    with pytest.raises(ValueError, match="is not legal here"):
        game.apply("[4]")
    assert (game.to_act(), game.observe(1), game.returns()) == (1, here, (0.0, 0.0))


@needs_textarena
def test_nothing_of_a_match_is_left_after_a_reset():
    game = make_game("textarena:SimpleNegotiation-v0-short")
    fresh = game.observe(0)
    game.apply(game.actions().read("I have a secret."))
    assert "secret" in game.observe(1)
    game.reset(0)
    assert game.observe(0) == fresh
    assert "secret" not in game.observe(1)


@needs_textarena
def test_a_match_without_an_end_is_cut_off():
    game = make_game("textarena:TicTacToe-v0(longest=3)")
    for move in ("[0]", "[1]", "[2]"):
        game.apply(move)
    assert game.to_act() is None
    assert game.returns() == (0.0, 0.0)


@needs_textarena
def test_a_match_in_which_all_are_out_is_over(capsys):
    game = make_game("textarena:LiarsDice-v0(least=-9,most=9,seats=3)")
    game._position.env.state.elimination_order = [0, 1, 2]
    game.apply(game.scripts()["random"](random.Random(0)))
    assert game.to_act() is None
    assert capsys.readouterr().out == ""


@needs_textarena
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TicTacTo-v0", "Did you mean TicTacToe-v0"),
        ("TicTacToe-v0(seats=3)", "does not start with 3"),
        ("Nim-v0(wrong=1)", "cannot be made"),
    ],
)
def test_wrong_names_are_refused_in_a_sentence(name, words):
    with pytest.raises(UsageError, match=words):
        make_game(f"textarena:{name}")


@needs_textarena
def test_the_commands_play_it(capsys):
    assert main(["match", "random", "random", "--game", TIC_TAC_TOE, "--matches", "4"]) == 0
    assert "4 matches" in capsys.readouterr().out
