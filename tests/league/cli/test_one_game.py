"""``league games show GAME``: what seats are told, a sample match, and whether the game is exact."""

import json

import pytest

from games.common.errors import NotEnumerable
from league.cli.dispatch import main
from league.theory.exact.exploitability import count_information_states


def shown(capsys, *arguments):
    assert main(["games", "show", *arguments]) == 0
    return capsys.readouterr().out


def test_a_debate_is_shown_with_what_the_judge_does_not_see(capsys):
    text = shown(capsys, "debate")
    assert "3 seats; general-sum" in text
    assert "Seats answer in free text." in text
    assert "Not exact. An exact value needs a list of legal actions" in text
    judge = text.partition("At the end judge sees:")[2]
    assert "opened box" in judge
    assert "The prize is in box" not in judge


def test_games_are_listed_by_motive_with_their_suite(capsys):
    assert main(["games"]) == 0
    text = capsys.readouterr().out
    heads = ["Zero-sum: what", "General-sum: each", "Common interest: all"]
    assert heads == sorted(heads, key=text.index)
    zero_sum, general, common = (text.partition(head)[2].partition("\n\n")[0] for head in heads)
    assert "kuhn_poker" in zero_sum
    assert "tiny_hanabi" in common
    [line] = [line for line in general.splitlines() if line.startswith("hidden_roles")]
    assert line.rstrip().endswith("talk")
    assert zero_sum.splitlines()[-1].rstrip().endswith("–")


def test_hidden_roles_are_shown_as_each_seat_sees_them(capsys):
    text = shown(capsys, "hidden_roles")
    assert "5 seats; general-sum" in text
    villager = text.partition("At the end villager_1 sees:")[2].partition("At the end")[0]
    assert "a villager. At the table" in villager
    assert "a wolf." not in villager.splitlines()[1]


def test_kuhn_poker_is_exact_and_its_sample_is_a_whole_match(capsys):
    report = json.loads(shown(capsys, "kuhn_poker", "--json"))
    assert report["information_states"] == 12
    assert [role["name"] for role in report["roles"]] == ["first", "second"]
    assert sum(report["sample"]["returns"]) == 0
    assert report["sample"]["turns"][0]["legal"] == ["pass", "bet"]


def test_a_match_with_submatches_is_shown(capsys):
    assert "It opened a match of lookup" in shown(capsys, "lookup_chain")


def test_show_may_be_left_out(capsys):
    text = shown(capsys, "kuhn_poker")
    assert main(["games", "kuhn_poker"]) == 0
    assert capsys.readouterr().out == text
    assert main(["games", "kuhn_poker", "leduc_poker"]) == 2
    assert "shows one game" in capsys.readouterr().err


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
