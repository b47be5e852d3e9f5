"""Suites as data: those of the project, a user's own of three lines, and what is refused, and why."""

import pytest

from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.config.suite import load_suite, suite_names

THREE_LINES = 'games = ["kuhn_poker", "ipd"]\nopponents = ["random", "equilibrium"]\nmatches = 40\n'


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_projects_suites_hold_games_out_and_name_no_game_twice():
    assert suite_names() == ["cooperation", "dilemmas", "mars", "spiral", "talk"]
    for name in suite_names():
        suite = load_suite(name)
        assert suite.training
        assert suite.held_out
        assert set(suite.training).isdisjoint(suite.held_out)
    talk = [game for _, game in load_suite("talk").by_kind()]
    assert {make_game(game).spec.suite for game in talk} == {"talk"}


def test_three_lines_are_a_suite_and_aliases_become_names(tmp_path):
    suite = load_suite(written(tmp_path, THREE_LINES))
    assert suite.games == ("kuhn_poker", "repeated_game(stage_game=matrix_pd(),num_repetitions=8)")
    assert (suite.opponents, suite.matches, suite.seed) == (("random", "equilibrium"), 40, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('opponents = ["random"]\n', "names no game"),
        ('games = ["kuhn_pokr"]\n', "kuhn_poker"),
        ('games = ["kuhn_poker"]\nheld_out = ["kuhn_poker"]\n', "twice"),
        ('games = ["kuhn_poker"]\nmatch = 3\n', "matches"),
        ("games = [", "not valid TOML"),
    ],
)
def test_wrong_suites_are_refused_in_a_sentence(tmp_path, text, words):
    with pytest.raises(UsageError, match=words):
        load_suite(written(tmp_path, text))


def test_unknown_suites_offer_the_nearest():
    with pytest.raises(UsageError, match="Did you mean spiral"):
        load_suite("spirall")
    with pytest.raises(UsageError, match=r"cannot be read"):
        load_suite("nowhere.toml")


def test_a_run_that_trains_on_a_held_out_game_is_refused_unless_told():
    of_suite = ["evaluation.suite=spiral", "games={kuhn_poker={matches=64},liars_dice={matches=64}}"]
    with pytest.raises(UsageError, match=r"holds out liars_dice.*train_on_held_out = true"):
        load("pocket-returns", of_suite)
    assert load("pocket-returns", [*of_suite, "evaluation.train_on_held_out=true"]).evaluation.suite == "spiral"
    assert load("pocket-returns", ["evaluation.suite=spiral"]).evaluation.suite == "spiral"  # trains on none of them
