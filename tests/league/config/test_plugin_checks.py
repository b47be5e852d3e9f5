"""``register_…`` checks what it is given, in every family; a plugin that fails to load is told with file and line."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest

import league
from games.common import plugins
from games.common.errors import UsageError
from games.common.registry import Entry, families
from games.native.lookup import Lookup
from league.cli import main
from learners.losses.term import LossTerm

FAMILIES = families()
PUBLIC = [name for name in league.__all__ if name.startswith("register_")]


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setattr(plugins, "_registered", {})
    monkeypatch.setattr(plugins, "_installed", dict)


def one_of(family):
    """Return an entry of ours that makes something."""
    return next(entry for entry in family.values() if callable(entry.make))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_a_family_takes_what_is_like_its_own_entries_and_refuses_what_is_not(family):
    ours = one_of(family)
    family.register("fits", dataclasses.replace(ours))
    with pytest.raises(
        UsageError, match=f"A plugin gives 3 as the {family.noun} 'wrong', which is an int, not an? {family.noun}"
    ):
        family.register("wrong", 3)
    many = dataclasses.replace(ours, make=lambda a, b, c, d, e, f, g, h: None)
    with pytest.raises(UsageError, match=r"its make is written \(a, b, c, d, e, f, g, h\); an? .* is called with \d"):
        family.register("wrong", many)
    for field, value, sentence in (
        ("make", 3, "its make is 3, which cannot be called"),
        ("settings", dict, "its settings are <class 'dict'>, and no class derived from Section"),
        ("check", "yes", "its check is 'yes', which cannot be called"),
        ("description", 7, "its description is 7, and should be of type str"),
    ):
        with pytest.raises(UsageError, match=re.escape(f"the {family.noun} 'wrong', and {sentence}")):
            family.register("wrong", dataclasses.replace(ours, **{field: value}))
    assert "wrong" not in plugins.names(family.family)


def test_needs_that_are_a_word_are_not_taken_for_its_letters():
    with pytest.raises(
        UsageError,
        match=r"needs = 'pairs' of a LossTerm is one string, where a set is needed: write \{'pairs'\}",
    ):
        LossTerm(lambda context: None, needs="pairs")
    assert Entry(len, needs={"pairs"}).needs == {"pairs"}


class NoGame:
    """A class that is not a game."""

    def reset(self, seed):
        pass


def sized(size):
    return Lookup()


def worded(size="large"):
    return Lookup()


def two(first, second):
    return None


@pytest.mark.parametrize(
    ("register", "value", "sentence"),
    [
        ("game", Lookup(), "which is a Lookup, not a game"),
        ("game", NoGame, "its class has no to_act, actions, observe, information_state, apply, rewards, returns, copy"),
        ("game", sized, "its parameter size has no default: parameters are whole numbers with defaults"),
        ("game", worded, "its parameter size is 'large': parameters are whole numbers with defaults"),
        ("environment", "my_envs.auction", "which is a str, not a PettingZoo environment"),
        ("scripted", two, "its constructor takes first, second: it gets only the text after the colon"),
        ("scripted", "random", "which is a str, not a scripted player"),
        ("roles", Path("/no/such/folder"), "there is no folder /no/such/folder: cards are TOML files in a folder"),
        ("roles", 3, "which is an int, not a role card"),
    ],
)
def test_what_is_no_family_is_checked_too(register, value, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        getattr(league, f"register_{register}")("mine", value)


def test_every_register_function_is_looked_at_here():
    checked = {"register_game", "register_environment", "register_scripted", "register_roles"}
    owners = {family.register.__self__.family for family in FAMILIES}
    for name in set(PUBLIC) - checked:
        register = getattr(league, name)
        assert getattr(register, "__self__", None) is not None, name
        assert register.__self__.family in owners, name


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import league\n\nx = 1 / 0\n", r"ZeroDivisionError: division by zero \(.*failing\.py, line 3\)"),
        ("def f(:\n", r"SyntaxError: .*failing\.py, line 1\)"),
        ("import helping\n", r"KeyError: 'gone' \(.*helping\.py, line 2\)"),
        ("import league\nleague.register_game('x', 3)\n", r"failing\.py, line 2: A plugin gives 3 as the game 'x'"),
        ("import sys\nsys.exit(0)\n", r"SystemExit: 0 \(.*failing\.py, line 2\)"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .* \(.*failing\.py, line 2\)"),
        ("import league\nleague.register_gme\n", r"AttributeError: .*\(.*failing\.py, line 2\)"),
    ],
)
def test_an_error_at_load_names_the_file_and_line(text, status, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing.py").write_text(text)
    (tmp_path / "helping.py").write_text("\n{}['gone']\n")
    for name in ("failing", "helping"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main(["games", "kuhn_poker", "--plugin", "failing"]) == 2
    assert re.search(status, capsys.readouterr().err)
