"""A name with values in braces is one game for each of them."""

import pytest

from games.common.errors import UsageError
from games.families import MOST_GAMES, family
from games.registry import make_game


def test_a_family_is_every_combination_of_its_values_in_their_order():
    assert family("kuhn_poker") == ["kuhn_poker"]
    assert family("hex(board_size={2..4})") == ["hex(board_size=2)", "hex(board_size=3)", "hex(board_size=4)"]
    assert family("sums(digits={1,5},base={2..3})") == [
        "sums(digits=1,base=2)",
        "sums(digits=1,base=3)",
        "sums(digits=5,base=2)",
        "sums(digits=5,base=3)",
    ]
    assert family("sums(base={9,10},digits=2)") == ["sums(digits=2,base=9)", "sums(digits=2)"], "10 is the default"
    assert [make_game(name).spec.name for name in family("renamed({kuhn_poker,leduc_poker})")] == [
        "renamed(kuhn_poker)",
        "renamed(leduc_poker)",
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sums(digits={1..20},base={2..10})", f"stands for 180 games, and a run takes at most {MOST_GAMES} of one"),
        ("hex(board_size={2..999999999})", "stands for 999,999,998 games"),
        ("hex(board_size={4..2})", r"\{4..2\} is not a list of distinct values"),
        ("hex(board_size={})", r"\{\} is not a list"),
        ("hex(board_size={2,2})", r"\{2,2\} is not a list of distinct values"),
        ("hex(board_size={2..3)", "its braces do not match"),
    ],
)
def test_what_is_no_family_is_refused_in_a_sentence(name, sentence):
    with pytest.raises(UsageError, match=sentence):
        family(name)
