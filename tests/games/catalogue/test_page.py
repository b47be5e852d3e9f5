"""The page of games shows what seats read, word for word, and names every game that this project has."""

import pytest
from support.pages import PAGES, blocks, page_of

from games.registry import NATIVE, make_game

PAGE = (page_of("games"), page_of("native_games"))
PROMISES = tuple(f"I will give {n}" for n in (4, 4, 4, 4))
SHOWN = (  # game, outcomes of chance or a seed, actions, the seat that reads
    ("public_goods", 0, (*PROMISES, "give 4", "give 4", "give 0", "give 4", "I will give 2"), 1),
    ("twenty_questions", ("green cat",), ("is it red or blue?", "is it cat or dog?"), 0),
    ("signalling", ("fish", "sun"), ("bem", "tree", "dax"), 1),
    (
        "reference",
        ("green fox", "red cat", "blue fox", "red fox", "red fox", *["red cat", "red fox", "blue fox"]),
        (),
        0,
    ),
    ("repeated_kuhn_poker", ("Q", "K", "K", "J"), ("bet", "pass", "pass"), 0),
    ("team_race", (*"453276", "A + B + D + F"), ("ask A + B", "11", "ask A", "4"), 0),
)


def dealt(name, chance, actions):
    """Return a match after the actions, dealt by a seed or by outcomes in the order in which chance moves."""
    game = make_game(name)
    if isinstance(chance, int):
        game.reset(chance)
        chance = ()
    else:
        game = game.undealt()
    left = list(chance)
    for action in (*actions, None):
        while left and game.chance_outcomes():
            game.apply_chance(left.pop(0))
        if action is not None:
            game.apply(action)
    return game


@pytest.mark.parametrize(("name", "chance", "actions", "seat"), SHOWN, ids=[shown[0] for shown in SHOWN])
def test_the_page_shows_what_a_seat_reads(name, chance, actions, seat):
    texts = [text.strip() for _, _, text in blocks(PAGE)]
    assert dealt(name, chance, actions).observe(seat) in texts


def test_the_page_shows_a_bargain_as_it_is():
    game = make_game("bargaining")
    [text] = [text.strip() for _, _, text in blocks(PAGE) if text.startswith("Pool: ")]
    for seed in range(200):
        game.reset(seed)
        if "keep 2 books" in game.legal_actions():
            game.apply("keep 2 books")
            if game.observe(1) == text:
                return
    pytest.fail("no deal of bargaining reads so")


def test_every_game_of_this_project_is_told_of_somewhere():
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    names = (*NATIVE, "bargaining", "colored_trails")
    assert [name for name in names if not any(f"`{name}" in page for page in pages)] == []
