"""What seats are shown beyond their observations, and games in which they are: values by hand and by brute force."""

import pytest

from games.common.errors import UsageError
from games.openspiel.game import OpenSpielGame, load_pyspiel
from games.privileged import PRIVILEGED, HasHidden, seen, with_privileged
from games.registry import make_game
from league.theory.exact.exploitability import exploitability, head_to_head, uniform_table
from league.theory.exact.game_value import game_value


def at(name, *actions):
    """Return the position after these actions, chance's too."""
    state = load_pyspiel(name).new_initial_state()
    for action in actions:
        state.apply_action(action)
    return OpenSpielGame.from_state(name, state)


@pytest.mark.parametrize(
    ("name", "actions", "seat", "text"),
    [
        ("kuhn_poker", [0, 2], 0, "Other card: K"),
        ("kuhn_poker", [0, 2, 1], 1, "Other card: J"),
        ("kuhn_poker(players=3)", [0, 2, 3], 1, "Other card (seat 1): J\nOther card (seat 3): A"),
        ("leduc_poker", [0, 5], 0, "Other card: Kh"),
        ("leduc_poker", [0, 5, 1, 1, 3], 1, "Other card: Js"),
        ("liars_dice", [0, 5, 3], 1, "Other dice: 1"),
        ("tiny_hanabi", [0, 1], 0, "Other card: d1"),
        ("tic_tac_toe", [], 0, ""),
    ],
)
def test_what_is_hidden_is_what_the_others_alone_know(name, actions, seat, text):
    assert seen(at(name, *actions), seat, ["hidden"]) == text


def test_a_question_has_an_answer_that_the_asker_alone_does_not_know():
    game = make_game("twenty_questions(answerer=1)")
    game.reset(3)
    [_, answer, *_] = game.observe(1).split("\n")
    assert seen(game, 0, ["hidden"]) == answer == f"It is the {game._thing}."
    assert seen(game, 1, ["hidden"]) == ""
    assert with_privileged("Colours.", "") == "Colours."


def test_teammates_see_what_their_team_is_shown_and_opponents_do_not():
    hanabi = at("tiny_hanabi", 0, 1)
    assert seen(hanabi, 0, ["teammates"]) == "Seat 2 is shown:\nYour card: d1\nMoves: none"
    assert seen(at("kuhn_poker", 0, 2), 0, ["teammates"]) == ""
    race = make_game("team_race")
    assert "Seat" in seen(race, 0, list(PRIVILEGED))
    assert not isinstance(race, HasHidden)


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker"])
def test_to_be_informed_is_worth_something_and_uniform_play_the_same(game):
    """With all cards on the table the higher card wins the ante, 1, whoever has it: Kuhn poker's value is then 0."""
    assert uniform_value(f"informed({game})") == pytest.approx(uniform_value(game))
    if game == "kuhn_poker":
        assert game_value(make_game("informed(kuhn_poker)").spec) == pytest.approx(0.0, abs=1e-9)
    gains = [exploitability(uniform_table(name)) for name in (game, f"informed({game},seat=1)", f"informed({game})")]
    assert gains[0] <= gains[1] <= gains[2]
    assert gains[0] < gains[2]


def uniform_value(game):
    return head_to_head([uniform_table(game)] * 2)[0]


def test_what_cannot_be_informed_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match="seat=3, but the seats are 1 to 2"):
        make_game("informed(kuhn_poker,seat=3)")
    with pytest.raises(UsageError, match="does not tell what it hides"):
        make_game("informed(noisy(kuhn_poker))")
    with pytest.raises(UsageError, match="tic_tac_toe does not tell what it hides"):
        make_game("informed(tic_tac_toe)")
