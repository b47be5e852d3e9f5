"""Sheriff, and Kuhn poker for three, as text: exact texts, one text for each information state, true rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from games.openspiel.game import OpenSpielGame, load_pyspiel
from games.openspiel.renderers import renderer_for
from games.registry import make_game
from roles.cards import load_roles

SHERIFF = "sheriff(item_penalty=1.0,item_value=5.0,max_bribe=2,max_items=10,num_rounds=2,sheriff_penalty=1.0)"


def play(moves: str, name: str = SHERIFF) -> OpenSpielGame:
    game = make_game(name)
    assert isinstance(game, OpenSpielGame)
    for move in filter(None, moves.split(", ")):
        game.apply(move)
    return game


@pytest.mark.parametrize(
    ("moves", "smuggler", "sheriff", "legal"),
    [
        (
            "",
            "Items: not chosen\nRound: 1 of 2\nMoves: none",
            "Items: not chosen\nRound: 1 of 2\nMoves: none",
            ", ".join(f"hide {n}" for n in range(11)),
        ),
        (
            "hide 10",
            "Items: 10\nRound: 1 of 2\nMoves: none",
            "Items: hidden\nRound: 1 of 2\nMoves: none",
            "bribe 0, bribe 1, bribe 2",
        ),
        (
            "hide 3, bribe 2",
            "Items: 3\nRound: 1 of 2\nMoves: bribe 2",
            "Items: hidden\nRound: 1 of 2\nMoves: bribe 2",
            "pass, inspect",
        ),
        (
            "hide 0, bribe 2, inspect",
            "Items: 0\nRound: 2 of 2\nMoves: bribe 2, inspect",
            "Items: hidden\nRound: 2 of 2\nMoves: bribe 2, inspect",
            "bribe 0, bribe 1, bribe 2",
        ),
        (
            "hide 3, bribe 2, pass, bribe 1, inspect",
            "Items: 3\nRound: 2 of 2\nMoves: bribe 2, pass, bribe 1, inspect",
            "Items: hidden\nRound: 2 of 2\nMoves: bribe 2, pass, bribe 1, inspect",
            "",
        ),
    ],
)
def test_sheriff_reads(moves: str, smuggler: str, sheriff: str, legal: str) -> None:
    game = play(moves)
    assert (game.observe(0), game.observe(1)) == (smuggler, sheriff)
    assert ", ".join(game.legal_actions()) == legal


def decisions(state: Any) -> Iterator[Any]:
    """Yield every state below, and this one, in which a seat moves; no chance is in this game."""
    if not state.is_terminal():
        yield state
        for action in state.legal_actions():
            yield from decisions(state.child(action))


@pytest.mark.parametrize("name", [SHERIFF, "sheriff(num_rounds=1)", "sheriff(max_items=2,max_bribe=1,num_rounds=3)"])
def test_texts_and_openspiels_information_states_are_one_to_one(name: str) -> None:
    renderer = renderer_for(load_pyspiel(name))
    pairs = {
        (seat, state.information_state_string(seat), renderer.observe(state, seat))
        for state in decisions(load_pyspiel(name).new_initial_state())
        for seat in (0, 1)
    }
    assert len({(seat, text) for seat, _, text in pairs}) == len({(seat, key) for seat, key, _ in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("moves", "returns"),
    [
        ("hide 7, bribe 0, inspect, bribe 2, pass", (33.0, 2.0)),  # 7 items worth 5, less the bribe of the last round
        ("hide 7, bribe 2, pass, bribe 1, inspect", (-7.0, 7.0)),  # a fine of 1 each, and no bribe
        ("hide 0, bribe 2, pass, bribe 1, inspect", (1.0, -1.0)),  # an honest traveller is paid for the trouble
        ("hide 0, bribe 0, pass, bribe 2, pass", (-2.0, 2.0)),
    ],
)
def test_sheriff_pays_as_its_card_says(moves: str, returns: tuple[float, ...]) -> None:
    game = play(moves)
    assert game.to_act() is None
    assert game.returns() == returns


def test_sheriff_has_cards_that_state_its_stakes() -> None:
    smuggler, sheriff = load_roles(make_game(SHERIFF).spec)
    assert (smuggler.name, sheriff.name) == ("smuggler", "sheriff")
    for stake in (
        "0 to 10 forbidden items",
        "two rounds",
        "bribe of 0 to 2",
        "each item is worth 5",
        "1 for each item",
    ):
        assert stake in smuggler.system
    assert [role.name for role in load_roles(make_game("sheriff").spec)] == ["first", "second"]  # other stakes, no card


def test_three_seats_of_kuhn_poker_read_well() -> None:
    """Four cards; the third seat sees the two passes before it, and nobody another's card."""
    name = "kuhn_poker(players=3)"
    state = load_pyspiel(name).new_initial_state()
    for action in (3, 0, 1, 0, 0):  # ace, jack and queen are dealt, two pass
        state.apply_action(action)
    game = OpenSpielGame.from_state(name, state)
    texts = [game.observe(seat) for seat in range(3)]
    assert texts == [f"Your card: {card}\nMoves: pass pass" for card in "AJQ"]
    assert game.legal_actions() == ("pass", "bet")
    assert [role.system.split(" in ")[0] for role in load_roles(game.spec)] == [
        f"You are the {ordinal} of 3 players" for ordinal in ("first", "second", "third")
    ]
