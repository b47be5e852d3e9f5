"""tests/data/prompts.md is what a language model reads, to the letter; a card with words says all rules."""

import tomllib

import pytest
from support.prompts import GAMES, PAGE, TEMPLATE, page, tiny_tokenizer

from arena.lm.tokenization import ChatTokenizer
from games.registry import make_game
from league.population.models.cache import stored_model
from roles.cards import BOTH, FULL, load_roles


def test_the_page_is_what_the_model_reads():
    """Written again by: PYTHONPATH=.:tests python -m support.prompts"""
    assert PAGE.read_text(encoding="utf-8") == page(tiny_tokenizer())


def test_the_published_model_reads_the_same():
    model = stored_model("smollm2-135m")
    if model is None:
        pytest.skip("smollm2-135m is not on this machine: league models get smollm2-135m")
    tokenizer = ChatTokenizer.read(model.folder)
    assert tokenizer.tokenizer.chat_template == TEMPLATE
    assert PAGE.read_text(encoding="utf-8") == page(tokenizer)


@pytest.mark.parametrize("game", GAMES)
def test_every_game_for_language_models_has_a_card_with_all_rules(game):
    spec = make_game(game).spec
    brief, full = load_roles(spec), load_roles(spec, wording="full")
    assert [(role.name, role.seat, role.tools, role.conduct) for role in full] == [
        (role.name, role.seat, role.tools, role.conduct) for role in brief
    ]
    assert all("{replies}" in role.ask for role in full)
    assert all(len(role.system) > 200 for role in full)


def test_there_is_a_card_for_each_of_them_and_no_other():
    """Some have one card for both wordings, in a folder of its own."""
    with_one = {tomllib.loads(path.read_text(encoding="utf-8"))["game"] for path in BOTH.glob("*.toml")}
    assert with_one >= {"simple_negotiation", "debate", "hidden_roles"}
    assert len(list(FULL.glob("*.toml"))) == len({make_game(game).spec.name for game in GAMES} - with_one)


@pytest.mark.parametrize(("game", "marks"), [("connect_four", "XO"), ("tic_tac_toe", "XO"), ("hex", "XO")])
def test_a_seat_is_told_which_mark_is_its_own(game, marks):
    for role, mark in zip(load_roles(make_game(game).spec, wording="full"), marks, strict=True):
        assert f"You play {mark}" in role.system
