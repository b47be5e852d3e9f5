"""Sentences for what pydantic refuses: which key, what was given, what is expected, what it means."""

import pytest
from pydantic import Field

from games.common.errors import UsageError
from games.common.section import Positive, Section
from games.common.validation import validated


class Leg(Section, strict=True):
    name: str = Field("leg", description="what it is called")
    length: Positive = Field(1, description="in millimetres")


class Table(Section):
    top: Leg = Leg()
    spare: Leg | None = None
    legs: tuple[Leg, ...] = ()
    drawers: dict[str, Leg] = Field({}, description="by place")
    wood: str = Field(description="what it is made of")


def refusal(**data):
    with pytest.raises(UsageError) as caught:
        validated(Table, {"wood": "oak", **data}, "table.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"top": {"length": 0}}, "top.length = 0: it should be greater than or equal to 1. (in millimetres)"),
        ({"spare": {"length": "1"}}, "spare.length = '1': it should be a valid integer. (in millimetres)"),
        ({"legs": [{}, {"length": True}]}, "legs.1.length = True: it should be a valid integer. (in millimetres)"),
        (
            {"legs": [{"name": "left", "length": 0.5}]},
            "legs.left.length = 0.5: it should be a valid integer. (in millimetres)",
        ),
        (
            {"drawers": {"upper": {"length": "1"}}},
            "drawers.upper.length = '1': it should be a valid integer. (in millimetres)",
        ),
        ({"drawers": 3}, "drawers = 3: it should be a table. (by place)"),
        ({"top": 3}, "top = 3: it should be a table of keys (top.name, top.length)."),
        ({"legs": [3]}, "legs.0 = 3: it should be a table of keys (legs.0.name, legs.0.length)."),
        ({"top": {"lenght": 1}}, "There is no key named 'top.lenght'. Did you mean top.length?"),
        ({"legs": [{"name": "b", "lngth": 1}]}, "There is no key named 'legs.b.lngth'. Did you mean legs.b.length?"),
        ({"woods": "oak"}, "There is no key named 'woods'. Did you mean wood?"),
        ({"wood": 3}, "wood = 3: it should be a valid string. (what it is made of)"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(data, sentence):
    assert refusal(**data) == f"table.toml: {sentence}"


def test_a_key_of_another_table_is_found_too():
    assert "Did you mean top.length" in refusal(length=3)


def test_each_mistake_has_a_line_and_a_missing_key_its_meaning():
    with pytest.raises(UsageError) as caught:
        validated(Table, {"legs": [{"length": 0}, {"length": 0}]})
    assert str(caught.value).splitlines() == [
        "legs.0.length = 0: it should be greater than or equal to 1. (in millimetres)",
        "legs.1.length = 0: it should be greater than or equal to 1. (in millimetres)",
        "The key 'wood' is missing. (what it is made of)",
    ]
