"""``league games show GAME``: what seats are told, a sample match, and whether the game is exact."""

import json

import pytest

from games.common.errors import NotEnumerable
from league.cli.dispatch import main
from league.exact.exploitability import count_information_states


def shown(capsys, *arguments):
    assert main(["games", "show", *arguments]) == 0
    return capsys.readouterr().out


def test_a_debate_is_shown_with_what_the_judge_does_not_see(capsys):
    text = shown(capsys, "debate")
    assert "3 seats; general-sum" in text
    assert "Seats answer in their own words." in text
    assert "Not exact. An exact value needs a list of legal actions" in text
    judge = text.partition("At the end judge sees:")[2]
    assert "opened box" in judge
    assert "The prize is in box" not in judge


def test_kuhn_poker_is_exact_and_its_sample_is_a_whole_match(capsys):
    report = json.loads(shown(capsys, "kuhn_poker", "--json"))
    assert report["information_states"] == 12
    assert [role["name"] for role in report["roles"]] == ["first", "second"]
    assert sum(report["sample"]["returns"]) == 0
    assert report["sample"]["turns"][0]["legal"] == ["pass", "bet"]


def test_a_match_with_submatches_is_shown(capsys):
    assert "It opened a match of lookup" in shown(capsys, "lookup_chain")


@pytest.mark.parametrize(("arguments", "words"), [([], "name a game"), (["kuhn_pocker"], "kuhn_poker")])
def test_a_wrong_name_is_a_sentence(capsys, arguments, words):
    assert main(["games", "show", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_small_negotiation_has_the_states_that_its_rules_make():
    """By seat and values, 4 each: nothing said, then what the first offered (8), then two offers (64)."""
    name = "simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)"
    assert count_information_states(name, 1000) == 4 * (1 + 8 + 64)
    with pytest.raises(NotEnumerable, match="more than 100 information states"):
        count_information_states(name, 100)
