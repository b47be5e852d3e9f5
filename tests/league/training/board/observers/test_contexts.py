"""What a prefix cache keeps of a seat's last prompt: counted by hand, and over real contexts that grow or are cut."""

import pytest
from support.matches.contexts import matches, with_slots
from support.matches.kuhn import engine_with
from support.models.pocket import pocket

from arena.records import TokenTrace, Turn
from games.registry import make_game
from league.training.board.observers.contexts import _measured
from roles.cards import load_roles


def turn(prompt, tool=""):
    return Turn(0, "r", "p", "", (), "x", "x", 0.0, TokenTrace("p", tuple(prompt), (1,), (0.0,), None), tool)


def test_what_is_kept_is_what_two_prompts_begin_with():
    played = [
        [turn([1, 2, 3]), turn([1, 2, 3, 4, 5]), turn([1, 9, 3, 4], tool="earlier")],
        [turn([7, 7])],
    ]
    found = _measured(played)
    assert found == {"tokens": pytest.approx(14 / 4), "kept": pytest.approx((3 + 1) / (5 + 4)), "texts": 0.5}
    assert "kept" not in _measured([[turn([1])], [turn([1])]])


def test_a_context_that_grows_keeps_all_of_the_last_prompt_and_a_window_that_moves_starts_again():
    """With the past above the rest: grown, only the last line is new; cut, what follows the first change is."""
    role, kept = load_roles(make_game("recall").spec)[0], {}
    for entries in (9, 1):
        slots = {"earlier": {"rule": "window", "entries": entries}}
        played = matches("recall(turns=8)", [engine_with(p0=pocket())], (with_slots(role, **slots),), number=4)
        kept[entries] = _measured([list(episode.turns) for episode in played])
    assert kept[9]["tokens"] > kept[1]["tokens"]
    assert kept[9]["kept"] > 0.6 > kept[1]["kept"]
